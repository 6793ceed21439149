import { isOrdinaryWord } from '../members/ordinary-words.ts';
import { internalNames, type Model } from '../model.ts';
import { innerReason, TELLING } from './refusal.ts';

const MAX_LOGGED = 1000;
/** Characters of a reason that a client sees. */
export const MAX_SHOWN = 300;
/** Characters of a first line whose words are read: some patterns take time by the square of its length. */
const MAX_LINE = 1000;
/** Text of a caller's that may be logged: it looks like a name, and not like a key or the address of a person. */
const NAME = /^(?=[\w.:/@+[\]-]{1,64}$)(?!.*[a-z2-7]{24})(?!.*\w@[\w.-]+\.[A-Za-z]{2,}(?!\w))/;
/** Keys, whole or masked. */
const KEYS = /\b(?:sk|pk|rk|svc|key|token)[-_][\w*.-]{4,}/gi;
/** Letters and digits in a row that make a text an echo of the prompt. */
const ECHO_LENGTH = 12;
const BEGINNINGS = 16_384;

/**
 * The reason of an upstream's refusal as a client may see it (contract section 4, "Upstream error
 * texts"): its first line with the slug for the internal model name, without hosts, addresses and keys,
 * at most 300 characters; empty if it names what stands behind in another way.
 * @param secrets internal names of other models, the upstream's host and key
 */
export function redact(text: string, model: Model, secrets: readonly string[] = []): string {
  if (/^\s*Traceback\b/.test(text)) return '';
  let line = innerReason(text).split(/[\r\n]/, 1)[0] as string;
  if (/^Traceback\b/.test(line)) return '';
  if (line.length > MAX_LINE) line = line.slice(0, Math.max(0, line.lastIndexOf(' ', MAX_LINE)));
  for (const secret of secrets) {
    for (const name of tellingNames(secret)) line = replaceIgnoringCase(line, name, '…');
  }
  for (const name of tellingNames(model.upstream))
    line = replaceIgnoringCase(line, name, model.slug);
  line = line.replace(NAMED, '$1$2…');
  for (const pattern of SECRETS) line = line.replace(pattern, '…');
  if (TELLING.test(line.replaceAll(model.slug, ''))) return '';
  return line.trim().slice(0, MAX_SHOWN);
}

/** A text of the caller's if it looks like a name; else words that say that it does not. */
export function nameOrNot(text: string): string {
  return NAME.test(text) ? text : '(no name)';
}

/**
 * An upstream's error text for the operator's log, which may name models and hosts, but contains no
 * keys and no part of the prompt.
 * @param prompt the request body as JSON; null when it is too long to compare with
 */
export function scrub(text: string, secrets: readonly string[], prompt: string | null): string {
  let line = text.slice(0, MAX_LOGGED);
  for (const secret of secrets) line = replaceIgnoringCase(line, secret, '…');
  line = line.replace(KEYS, '…');
  return prompt === null ? withoutQuotes(line) : withoutEcho(line, prompt);
}

/**
 * Removes what the text repeats of the prompt. Compares only letters and digits, because quoting and escapes vary. The
 * time it takes grows with the prompt alone, whatever is in it: callers may choose both texts.
 */
function withoutEcho(text: string, prompt: string): string {
  const bare = [...text.matchAll(/[\p{L}\p{N}]/gu)];
  const windows = new Map<string, number[]>();
  const begun = new Uint8Array(BEGINNINGS);
  for (let i = 0; i + ECHO_LENGTH <= bare.length; i++) {
    const window = bare.slice(i, i + ECHO_LENGTH).join('');
    const starts = windows.get(window);
    if (starts !== undefined) starts.push(i);
    else windows.set(window, [i]);
    begun[beginning(window, 0)] = 1;
  }
  const asked = prompt.replace(/\\u([0-9a-f]{4})/gi, (_, hex) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  const letters = asked.replace(/\\[nrtbf]|[^\p{L}\p{N}]/gu, '');
  const echoed = new Set<number>();
  for (let i = 0; i + ECHO_LENGTH <= letters.length && windows.size > 0; i++) {
    if (begun[beginning(letters, i)] === 0) continue; // of most windows, which saves two thirds of the time
    const window = letters.slice(i, i + ECHO_LENGTH);
    for (const start of windows.get(window) ?? []) echoed.add(start);
    windows.delete(window); // all its places are known
  }
  let out = '';
  let from = 0;
  for (const start of [...echoed].sort((a, b) => a - b)) {
    const { index: first } = bare[start] as RegExpExecArray;
    const last = bare[start + ECHO_LENGTH - 1] as RegExpExecArray;
    if (first > from) out += `${text.slice(from, first)}…`;
    else if (from === 0) out = '…';
    from = Math.max(from, last.index + last[0].length);
  }
  return out + text.slice(from);
}

/** A number for three letters, below BEGINNINGS. */
function beginning(text: string, i: number): number {
  return (
    (text.charCodeAt(i) + 31 * text.charCodeAt(i + 1) + 961 * text.charCodeAt(i + 2)) % BEGINNINGS
  );
}

/** Without a prompt to compare with: removes quotations, and everything after 100 characters. */
function withoutQuotes(text: string): string {
  return text.replace(/(["'`])(?:(?!\1).){16,}?(?:\1|$)/gs, '$1…$1').slice(0, 100);
}

/** The names of an upstream model without those that are ordinary words: "auto" is in many a reason. */
function tellingNames(upstream: string): string[] {
  return internalNames(upstream).filter((name) => !isOrdinaryWord(name.toLowerCase()));
}

function replaceIgnoringCase(text: string, name: string, by: string): string {
  if (!text.toLowerCase().includes(name.toLowerCase())) return text;
  return text.replace(new RegExp(name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi'), () => by);
}

/** The operator's own names for machines and deployments, each after a word such as "deployment". */
const NAMED =
  /\b(deployment|provider|router|upstream|backend|resource group|subscription|organization|project|tenant|workspace|account)([ =:]+)(["'`]?)(?=[\w./@:-]*[\d_./@:-])[\w./@:-]*\w\3/gi;

const SECRETS: readonly RegExp[] = [
  /\b(?:azure|azure_ai|openai|anthropic|bedrock|sagemaker|vertex_ai|gemini|google|mistral|mistralai|cohere|groq|together_ai|fireworks_ai|deepseek|openrouter|huggingface|ollama|hosted_vllm|vllm|xai|x-ai|perplexity|replicate|watsonx|databricks|nvidia|nvidia_nim|meta-llama|qwen)\/[\w.:@/-]+/gi, // models by vendor
  /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, // addresses
  /\b(?:bearer\s+)\S+/gi,
  KEYS,
  /\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, // IPv4
  /\[(?=[0-9a-f]*:)[0-9a-f:]{3,}\](?::\d+)?/gi, // IPv6
  /\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|eu|de|fr|dev|cloud|local|internal|svc|lan|azure)(?:\.[a-z]+)*\b(?::\d+)?(?:\/\S*)?/gi, // hosts
  /\blocalhost(?::\d+)?/gi,
  /\b(?:request|trace|correlation|activity)[-_ ]?id\b\W{0,3}[\w-]*\d[\w-]*|\breq_\w+/gi, // of the upstream's requests
  /\b[\w-]{32,}\b/g, // digests, tokens, long identifiers
];
