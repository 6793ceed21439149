import type { Model } from './model.ts';

/**
 * The reason of an upstream's refusal, fit for a client (contract section 4, "Upstream
 * error texts"): its first line, the internal model name become the slug, no hosts,
 * addresses or keys, 300 characters at most.
 * @param secrets other models' internal names, the upstream's host and key, whatever form they have
 */
export function redact(text: string, model: Model, secrets: readonly string[] = []): string {
  let line = text.trimStart().split(/[\r\n]/, 1)[0] as string;
  if (/^Traceback\b/.test(line)) return '';
  line = line.replace(ROUTING, '');
  // "litellm.BadRequestError: OpenAIException - reason": the class names tell what stands behind
  line = line.replace(/^(?:[\w.]*(?:Error|Exception)\b[\s:-]*)+/, '');
  for (const secret of secrets) {
    for (const name of internalNames(secret)) line = replaceIgnoringCase(line, name, '…');
  }
  for (const name of internalNames(model.upstream)) line = replaceIgnoringCase(line, name, model.slug);
  line = line.replace(
    /\b(deployment|provider|router|upstream|backend)([ =:]+)(["'`]?)[\w./@:-]*[\d_./@:-][\w./@:-]*\3/gi,
    '$1$2…',
  );
  for (const pattern of SECRETS) line = line.replace(pattern, '…');
  return line.trim().slice(0, 300);
}

/**
 * What an upstream said, fit for the operator's log: it may name models and hosts, but
 * neither the master key nor any part of the prompt, and company keys less than anything.
 * @param prompt what the client asked, as JSON; null when it is too long to compare with
 */
export function scrub(text: string, secrets: readonly string[], prompt: string | null): string {
  let line = text.slice(0, MAX_LOGGED);
  for (const secret of secrets) line = replaceIgnoringCase(line, secret, '…');
  line = line.replace(KEYS, '…');
  return prompt === null ? withoutQuotes(line) : withoutEcho(line, prompt);
}

const MAX_LOGGED = 1000;
const KEYS = /\b(?:sk|pk|rk|svc|key|token)[-_][\w*.-]{4,}/gi;

/** How many letters and digits in a row make text an echo of the prompt. */
const ECHO = 12;

/** Letters and digits alone are compared: quoting and escapes differ each time text is passed on. */
function withoutEcho(text: string, prompt: string): string {
  const bare = [...text.matchAll(/[\p{L}\p{N}]/gu)];
  const windows = new Map<string, number[]>();
  for (let i = 0; i + ECHO <= bare.length; i++) {
    const window = bare.slice(i, i + ECHO).join('');
    windows.set(window, [...(windows.get(window) ?? []), i]);
  }
  const asked = prompt.replace(/\\u([0-9a-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  const letters = asked.replace(/\\[nrtbf]|[^\p{L}\p{N}]/gu, '');
  const echoed = new Set<number>();
  for (let i = 0; i + ECHO <= letters.length; i++) {
    for (const start of windows.get(letters.slice(i, i + ECHO)) ?? []) echoed.add(start);
  }
  let out = '';
  let from = 0;
  for (const start of [...echoed].sort((a, b) => a - b)) {
    const { index: first } = bare[start] as RegExpExecArray;
    const last = bare[start + ECHO - 1] as RegExpExecArray;
    if (first > from) out += `${text.slice(from, first)}…`;
    else if (from === 0) out = '…';
    from = Math.max(from, last.index + last[0].length);
  }
  return out + text.slice(from);
}

/** Nothing to compare with: what stands in quotes goes, and everything after a while. */
function withoutQuotes(text: string): string {
  return text.replace(/(["'`])(?:(?!\1).){16,}?(?:\1|$)/gs, '$1…$1').slice(0, 100);
}

/** "azure/gpt-4o-eu" is also written "gpt-4o-eu" by what stands further behind. */
function internalNames(upstream: string): string[] {
  const last = upstream.slice(upstream.lastIndexOf('/') + 1);
  return last === upstream || last.length < 3 ? [upstream] : [upstream, last];
}

function replaceIgnoringCase(text: string, name: string, by: string): string {
  if (!text.toLowerCase().includes(name.toLowerCase())) return text;
  return text.replace(new RegExp(name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi'), () => by);
}

/** What routers append about where else they tried. */
const ROUTING =
  /[\s,.;]*\b(?:received model group|available model group|no fallback model|(?:context_window_)?fallbacks?\s*=|model_group\s*=|litellm retried).*$/i;

const SECRETS: readonly RegExp[] = [
  /\b(?:azure|azure_ai|openai|anthropic|bedrock|sagemaker|vertex_ai|gemini|google|mistral|mistralai|cohere|groq|together_ai|fireworks_ai|deepseek|openrouter|huggingface|ollama|hosted_vllm|vllm|xai|x-ai|perplexity|replicate|watsonx|databricks|nvidia|nvidia_nim|meta-llama|qwen)\/[\w.:@/-]+/gi, // models by vendor
  /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, // addresses
  /\b(?:bearer\s+)\S+/gi,
  /\b(?:sk|pk|rk|svc|key|token)[-_][\w*.-]{4,}/gi, // keys, whole or masked
  /\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, // IPv4
  /\[[0-9a-f:]{3,}\](?::\d+)?/gi, // IPv6
  /\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|eu|de|fr|dev|cloud|local|internal|svc|lan|azure)(?:\.[a-z]+)*\b(?::\d+)?(?:\/\S*)?/gi, // hosts
  /\blocalhost(?::\d+)?/gi,
  /\b[\w-]{32,}\b/g, // digests, tokens, long identifiers
];
