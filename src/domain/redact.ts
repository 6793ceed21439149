import type { Model } from './model.ts';

/**
 * The reason of an upstream's refusal, fit for a client (contract section 4, "Upstream
 * error texts"): its first line, the internal model name become the slug, no hosts,
 * addresses or keys, 300 characters at most.
 */
export function redact(text: string, model: Model): string {
  let line = text.trimStart().split(/[\r\n]/, 1)[0] as string;
  // "litellm.BadRequestError: OpenAIException - reason": the class names tell what stands behind
  line = line.replace(/^(?:[\w.]*(?:Error|Exception)\b[\s:-]*)+/, '');
  for (const name of internalNames(model.upstream)) line = replaceIgnoringCase(line, name, model.slug);
  for (const pattern of SECRETS) line = line.replace(pattern, '…');
  return line.trim().slice(0, 300);
}

/** "azure/gpt-4o-eu" is also written "gpt-4o-eu" by what stands further behind. */
function internalNames(upstream: string): string[] {
  const last = upstream.slice(upstream.lastIndexOf('/') + 1);
  return last === upstream || last.length < 3 ? [upstream] : [upstream, last];
}

function replaceIgnoringCase(text: string, name: string, by: string): string {
  return text.replace(new RegExp(name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi'), () => by);
}

const SECRETS: readonly RegExp[] = [
  /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, // addresses
  /\b(?:bearer\s+)\S+/gi,
  /\b(?:sk|pk|rk|svc|key|token)[-_][\w*.-]{4,}/gi, // keys, whole or masked
  /\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, // IPv4
  /\[[0-9a-f:]{3,}\](?::\d+)?/gi, // IPv6
  /\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|eu|de|fr|dev|cloud|local|internal|svc|lan|azure)(?:\.[a-z]+)*\b(?::\d+)?(?:\/\S*)?/gi, // hosts
  /\blocalhost(?::\d+)?/gi,
  /\b[\w-]{32,}\b/g, // digests, tokens, long identifiers
];
