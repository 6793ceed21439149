import { GatewayError } from '../domain/errors.ts';
import type { RequestHead } from '../http/request-head.ts';
import { assistantRun } from './endpoints/assistants.ts';
import type { Endpoint, Lookup } from './endpoints/call.ts';
import { chat } from './endpoints/chat.ts';
import { completions } from './endpoints/completions.ts';
import { embeddings } from './endpoints/embeddings.ts';
import { countTokens, messages } from './endpoints/messages.ts';
import { modelList, oneModel } from './endpoints/models.ts';
import { rerank } from './endpoints/rerank.ts';
import { responses } from './endpoints/responses.ts';
import { keyUsage, oneCall } from './endpoints/usage.ts';
import { unknownPath } from './unknown-path.ts';

/** The endpoint of a request (spec section 4). */
type Route = {
  readonly method: 'GET' | 'POST';
  /** The path below the base path, such as "/models/{model}". */
  readonly template: string;
  /** What stands in the path for the part in braces, still URL-encoded; '' where there is none. */
  readonly id: string;
} & (
  | { readonly kind: 'endpoint'; readonly endpoint: Endpoint }
  | { readonly kind: 'lookup'; readonly lookup: Lookup }
);

const MODELS = routeOf('/models', modelList);
const RERANK = routeOf('/rerank', rerank);
const USAGE = routeOf('/usage', keyUsage);

/** Paths without an identifier, the most frequent first: to compare a path costs less than to hash it. */
const FIXED: readonly (readonly [path: string, route: Route])[] = [
  ['/chat/completions', routeOf('/chat/completions', chat)],
  ['/embeddings', routeOf('/embeddings', embeddings)],
  ['/responses', routeOf('/responses', responses)],
  ['/messages', routeOf('/messages', messages)],
  ['/completions', routeOf('/completions', completions)],
  ['/messages/count_tokens', routeOf('/messages/count_tokens', countTokens)],
  ['/models', MODELS],
  ['/models/', MODELS],
  ['/usage', USAGE],
  ['/usage/', USAGE],
  ['/rerank', RERANK],
];

const ENDPOINTS = FIXED.map(([path]) => path).filter((path) => !path.endsWith('/'));

/** Paths of the origin, beside the base path: Cohere's clients append them to an address that has no version. */
const OF_ORIGIN = ['/v1/rerank', '/v2/rerank'];

/** Paths with an identifier. */
const WITH_ID: readonly (readonly [path: RegExp, route: Route])[] = [
  [/^\/models\/(.+)$/, routeOf('/models/{model}', oneModel)],
  [/^\/usage\/([^/]+)$/, routeOf('/usage/{id}', oneCall)],
  [/^\/assistants\/([^/]+)\/run$/, routeOf('/assistants/{id}/run', assistantRun)],
];

/** Each route once, as "POST /messages". */
export const API_ROUTES = [
  ...new Set([...FIXED, ...WITH_ID].map(([, { method, template }]) => `${method} ${template}`)),
];

function routeOf(template: string, endpoint: Endpoint | Lookup): Route {
  return 'render' in endpoint
    ? { method: 'GET', template, id: '', kind: 'lookup', lookup: endpoint }
    : { method: 'POST', template, id: '', kind: 'endpoint', endpoint };
}

/**
 * Finds the route of a request target. A query is ignored; so is a second slash, which a base
 * address that ends in a slash causes.
 * @throws GatewayError 404 for an unknown path, 405 or 426 for a known one with another method,
 * 400 for a target that two hops could read differently
 */
export function findRoute(
  method: string,
  target: string,
  basePath: string,
  head: RequestHead,
): Route {
  if (target.charCodeAt(0) !== SLASH) target = originForm(target, head.host);
  if (!target.startsWith(basePath)) {
    if (OF_ORIGIN.includes(target.split('?', 1)[0] as string))
      return requireMethod(RERANK, method, head);
    requirePlainTarget(target);
    throw unknownPath(target, basePath, ENDPOINTS);
  }
  const query = target.indexOf('?');
  let path = query < 0 ? target.slice(basePath.length) : target.slice(basePath.length, query);
  if (path.startsWith('//')) path = path.slice(1);
  for (const [fixed, route] of FIXED) if (path === fixed) return requireMethod(route, method, head);
  requirePlainTarget(target);
  for (const [pattern, route] of WITH_ID) {
    const id = pattern.exec(path)?.[1];
    if (id !== undefined) return requireMethod({ ...route, id }, method, head);
  }
  throw unknownPath(target, basePath, ENDPOINTS);
}

function requireMethod(route: Route, method: string, { upgrades }: RequestHead): Route {
  if (method === route.method) return route;
  // Codex asks for a WebSocket first: 426 alone makes it take HTTP at once, without six seconds of trying again
  if (method === 'GET' && upgrades) throw new GatewayError('upgrade_required');
  const error = new GatewayError('method_not_allowed');
  error.headers = ['allow', route.method];
  throw error;
}

const SLASH = 0x2f;

/** The path of a target in absolute form (RFC 9112, section 3.2.2), which has to name this host. */
function originForm(target: string, host: string | undefined): string {
  const [, authority, rest] = /^http:\/\/([^/?#]+)(.*)$/i.exec(target) ?? [];
  if (authority === undefined || authority.toLowerCase() !== host?.toLowerCase())
    throw twoMeanings();
  return rest as string;
}

/** Called only for targets that are none of the fixed paths: those cannot have two meanings. */
function requirePlainTarget(target: string): void {
  const query = target.indexOf('?');
  const path = query < 0 ? target : target.slice(0, query);
  // a fragment, a backslash, characters no address has, a dot segment however it is written
  if (
    !/^[!$%&'()*+,\-./0-9:;=@A-Z_a-z~]*$/.test(path) ||
    /(?:^|\/|%2f|%5c)(?:\.|%2e){1,2}(?:\/|%2f|%5c|$)/i.test(path)
  ) {
    throw twoMeanings();
  }
}

function twoMeanings(): GatewayError {
  return new GatewayError('invalid_request', 'The request target could be read in two ways.');
}
