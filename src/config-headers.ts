/** Headers in variables of the environment. */

/** Reads `name=value,name=value` as OpenTelemetry writes headers in a variable; names become lowercase. @throws Error */
export function headers(text: string): Record<string, string> {
  return Object.fromEntries(
    headerPairs(text).map(([name, value]) => {
      if (name === '' || value === null) throw new Error('must be name=value,name=value');
      return [name, value];
    }),
  );
}

/**
 * As `headers`, but each name once, each with a value, and none that the gateway sends itself or that frames a message.
 * @throws Error
 */
export function upstreamHeaders(text: string): Record<string, string> {
  const pairs = headerPairs(text);
  const mistakes = pairs.flatMap(([name, value], k) => {
    if (name === '' || value === null || value === '' || value !== value.trim())
      return [`pair ${k + 1} must be name=value with a value of printable ASCII`];
    if (OWN_HEADERS.has(name)) return [`${name} is set by the gateway and cannot be given`];
    return pairs.findIndex(([other]) => other === name) < k ? [`${name} occurs twice`] : [];
  });
  if (mistakes.length > 0) throw new Error(mistakes.join('; '));
  return Object.fromEntries(pairs) as Record<string, string>;
}

/** The name of a header in lowercase, of none that has another meaning or holds a secret. @throws Error */
export function freeHeader(text: string): string {
  const name = text.toLowerCase();
  if (!/^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name)) throw new Error('must be the name of a header');
  if (OWN_HEADERS.has(name) || CREDENTIALS.test(name))
    throw new Error('must not be a header with another meaning');
  return name;
}

const CREDENTIALS = /^(?:x-api-key|(?:proxy-)?authorization|cookie)$/;

/** Names of such headers, in their order. @throws Error */
export function freeHeaders(text: string): readonly string[] {
  return text === '' ? [] : text.split(',').map((name) => freeHeader(name.trim()));
}

/** Headers of upstream calls that the gateway sets itself, or HTTP for one connection. */
// biome-ignore format: one row per subject
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'host', 'content-type', 'content-length', 'content-encoding', 'accept', 'accept-encoding', 'authorization',
  'x-request-id', 'traceparent', 'tracestate', 'anthropic-version', 'anthropic-beta',
  'connection', 'proxy-connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'expect',
]);

/** Names in lowercase and decoded values; '' and null where they are malformed. */
function headerPairs(text: string): (readonly [name: string, value: string | null])[] {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  return pairs.map((pair) => {
    const [, name = '', encoded = ''] =
      /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    const value = percentDecoded(encoded);
    return [name.toLowerCase(), value !== null && /^[\x20-\x7e]*$/.test(value) ? value : null];
  });
}

function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
