import { GatewayError } from '../domain/errors.ts';
import { assistantRun } from './assistants.ts';
import type { Operation } from './call.ts';
import { chat } from './chat.ts';
import { embeddings } from './embeddings.ts';

/** Where a request goes (spec section 4). `id` is the path's identifier, still URL-encoded, or ''. */
export type Route =
  | { readonly name: 'models' | 'model'; readonly id: string }
  | { readonly name: 'operation'; readonly operation: Operation; readonly id: string };

const MODELS: Route = { name: 'models', id: '' };
const CHAT: Route = { name: 'operation', operation: chat, id: '' };
const EMBEDDINGS: Route = { name: 'operation', operation: embeddings, id: '' };

/**
 * The route of a request target. Only origin-form is known; a query is ignored, a slash
 * doubled by a base address that ends in one is forgiven.
 * @throws GatewayError 404 for an unknown path, 405 for a known one with another method
 */
export function findRoute(method: string, target: string, basePath: string): Route {
  if (!target.startsWith(basePath)) throw noRoute();
  const query = target.indexOf('?');
  let path = query < 0 ? target.slice(basePath.length) : target.slice(basePath.length, query);
  if (path.startsWith('//')) path = path.slice(1);
  switch (path) {
    case '/chat/completions':
      return only('POST', method, CHAT);
    case '/embeddings':
      return only('POST', method, EMBEDDINGS);
    case '/models':
    case '/models/':
      return only('GET', method, MODELS);
  }
  const model = /^\/models\/(.+)$/.exec(path);
  if (model !== null) return only('GET', method, { name: 'model', id: model[1] as string });
  const run = /^\/assistants\/([^/]+)\/run$/.exec(path);
  if (run !== null) return only('POST', method, { name: 'operation', operation: assistantRun, id: run[1] as string });
  throw noRoute();
}

function only(expected: string, method: string, route: Route): Route {
  if (method !== expected) throw new GatewayError('method_not_allowed');
  return route;
}

function noRoute(): GatewayError {
  return new GatewayError('not_found', 'No such route. The base address ends in the path prefix, such as /v1.');
}
