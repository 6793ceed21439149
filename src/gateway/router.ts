import { GatewayError } from '../domain/errors.ts';
import { assistantRun } from './assistants.ts';
import type { Operation } from './call.ts';
import { chat } from './chat.ts';
import { embeddings } from './embeddings.ts';
import { countTokens, messages } from './messages.ts';
import { responses } from './responses.ts';
import { unknownPath } from './unknown-path.ts';

/** The endpoint of a request (spec section 4). `id` is the identifier in the path, still URL-encoded, or ''. */
export type Route =
  | { readonly name: 'models' | 'model' | 'usage' | 'call'; readonly id: string }
  | { readonly name: 'operation'; readonly operation: Operation; readonly id: string };

const MODELS: Route = { name: 'models', id: '' };
const USAGE: Route = { name: 'usage', id: '' };
const CHAT: Route = { name: 'operation', operation: chat, id: '' };
const EMBEDDINGS: Route = { name: 'operation', operation: embeddings, id: '' };
const RESPONSES: Route = { name: 'operation', operation: responses, id: '' };
const MESSAGES: Route = { name: 'operation', operation: messages, id: '' };
const COUNT_TOKENS: Route = { name: 'operation', operation: countTokens, id: '' };

/**
 * Finds the route of a request target. A query is ignored; so is a second slash, which a base
 * address that ends in a slash causes.
 * @param host the Host header
 * @throws GatewayError 404 for an unknown path, 405 for a known one with another method,
 * 400 for a target that two hops could read differently
 */
export function findRoute(method: string, target: string, basePath: string, host: string | undefined): Route {
  if (target.charCodeAt(0) !== SLASH) target = originForm(target, host);
  if (!target.startsWith(basePath)) {
    requireOneMeaning(target);
    throw unknownPath(target, basePath);
  }
  const query = target.indexOf('?');
  let path = query < 0 ? target.slice(basePath.length) : target.slice(basePath.length, query);
  if (path.startsWith('//')) path = path.slice(1);
  switch (path) {
    case '/chat/completions':
      return only('POST', method, CHAT);
    case '/embeddings':
      return only('POST', method, EMBEDDINGS);
    case '/responses':
      return only('POST', method, RESPONSES);
    case '/messages':
      return only('POST', method, MESSAGES);
    case '/messages/count_tokens':
      return only('POST', method, COUNT_TOKENS);
    case '/models':
    case '/models/':
      return only('GET', method, MODELS);
    case '/usage':
    case '/usage/':
      return only('GET', method, USAGE);
  }
  requireOneMeaning(target);
  const model = /^\/models\/(.+)$/.exec(path);
  if (model !== null) return only('GET', method, { name: 'model', id: model[1] as string });
  const call = /^\/usage\/([^/]+)$/.exec(path);
  if (call !== null) return only('GET', method, { name: 'call', id: call[1] as string });
  const run = /^\/assistants\/([^/]+)\/run$/.exec(path);
  if (run !== null) return only('POST', method, { name: 'operation', operation: assistantRun, id: run[1] as string });
  throw unknownPath(target, basePath);
}

function only(expected: string, method: string, route: Route): Route {
  if (method !== expected) {
    const error = new GatewayError('method_not_allowed');
    error.headers = ['allow', expected];
    throw error;
  }
  return route;
}

const SLASH = 0x2f;

/** The path of a target in absolute form (RFC 9112, section 3.2.2), which has to name this host. */
function originForm(target: string, host: string | undefined): string {
  const [, authority, rest] = /^http:\/\/([^/?#]+)(.*)$/i.exec(target) ?? [];
  if (authority === undefined || authority.toLowerCase() !== host?.toLowerCase()) throw twoMeanings();
  return rest as string;
}

/** Called only for targets that are none of the fixed paths: those cannot have two meanings. */
function requireOneMeaning(target: string): void {
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
