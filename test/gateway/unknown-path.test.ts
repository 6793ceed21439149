import t from 'tap';
import { GatewayError } from '../../src/domain/errors.ts';
import { findRoute } from '../../src/gateway/router.ts';
import { RequestHead } from '../../src/http/request-head.ts';
import { ask } from '../support/client.ts';
import { startWorld } from '../support/world.ts';

const BASE_HINT = /base address/;

/** What a client is told about a path. */
function told(target: string, basePath = '/v1'): string {
  try {
    findRoute('POST', target, basePath, new RequestHead(['host', 'gate']));
  } catch (error) {
    if (error instanceof GatewayError && error.status === 404) return error.message;
    throw error;
  }
  throw new Error(`${target} is an endpoint`);
}

t.test(
  'an endpoint that this gateway does not have is named as such, with what to use instead',
  async (t) => {
    const paths: Record<string, RegExp> = {
      '/fim/completions': /no endpoint.*POST \/completions/,
      '/images/generations': /no endpoint for images.*POST \/chat\/completions/,
      '/audio/transcriptions': /no endpoint for audio/,
      '/moderations': /no endpoint for moderation/,
      '/files': /stores nothing/,
      '/files/file-1/content': /stores nothing/,
      '/batches': /each request by itself/,
      '/assistants': /POST \/assistants\/\{id\}\/run/,
      '/assistants/asst_1': /POST \/assistants\/\{id\}\/run/,
      '/threads/t_1/messages': /stored conversations/,
      '/threads/runs': /stored conversations/,
      '/fine_tuning/jobs': /fine-tuning.*GET \/models/,
      '/vector_stores/vs_1': /POST \/embeddings/,
      '/realtime?model=x': /realtime/,
      '/score': /no endpoint for scores.*POST \/rerank/,
      '/organization/usage/embeddings': /no endpoint.*GET \/usage/,
      '/responses/resp_1': /stored responses.*POST \/responses/,
      '/responses/resp_1/cancel': /POST \/responses/,
      '/responses/compact':
        /^This gateway has no endpoint for compacting a conversation\..*`name`.*POST \/responses/,
      '/responses/input_tokens': /POST \/messages\/count_tokens/,
      '/chat/completions/chatcmpl-1': /stored chat completions/,
      '/chat/completions/chatcmpl-1/messages': /stored chat completions/,
      '/messages/batches': /POST \/messages /,
      '/messages/batches/b_1/results': /POST \/messages /,
    };
    for (const [path, expected] of Object.entries(paths)) {
      for (const prefix of ['/v1', '', '/v1/v1', '/api/v1', '/v1/']) {
        t.match(told(prefix + path), expected, prefix + path);
        t.notMatch(told(prefix + path), BASE_HINT, prefix + path);
      }
    }
  },
);

t.test('a path that comes of a wrong base address is told the right one', async (t) => {
  const wrong: Record<string, string> = {
    '/chat/completions': '/v1/chat/completions',
    '/v1/v1/chat/completions': '/v1/chat/completions',
    '/v1/chat/completions/chat/completions': '/v1/chat/completions',
    '/v1/responses/responses': '/v1/responses',
    '/openai/deployments/x/embeddings?api-version=1': '/v1/embeddings',
    '/v2/embeddings': '/v1/embeddings',
    '/v1/chat/completions/': '/v1/chat/completions',
    '/responses': '/v1/responses',
    '/messages': '/v1/messages',
    '/v1/v1/messages/count_tokens': '/v1/messages/count_tokens',
    '/models': '/v1/models',
    '/usage': '/v1/usage',
    '/assistants/5f0c6a52/run': '/v1/assistants/{id}/run',
  };
  for (const [path, right] of Object.entries(wrong)) {
    t.match(told(path), BASE_HINT, path);
    t.match(told(path), ` ${right}:`, path);
  }
  t.match(told('/v1/chat/completions', '/gate'), ' /gate/chat/completions:');
  const [, all = ''] = /there are (.*) and /.exec(told('/v1/nothing')) ?? [];
  t.ok(all.split(', ').length > 6);
  for (const path of all.split(', '))
    t.match(told(`/v1/v1${path}`), ` /v1${path}:`, 'none is said to be missing');
});

t.test('any other path is told what there is, and nothing of it is repeated', async (t) => {
  for (const path of [
    '/',
    '/v1',
    '/v1/',
    '/chat',
    '/v1/secret-word',
    '/v1x/chat',
    '/v1/assistants//walk/secret-word',
  ]) {
    t.match(told(path), /\/chat\/completions|\/assistants\/\{id\}\/run/, path);
    t.notMatch(told(path), /secret-word/);
    t.notMatch(told(path), BASE_HINT, path);
  }
});

t.test(
  'errors below /messages have the shape of the Messages API, without a route too',
  async (t) => {
    const { url, customer } = await startWorld(t);
    const { origin } = new URL(url);
    const shape = (status: number, type: string) => ({
      status,
      json: { type: 'error', error: { type, message: String }, request_id: /^[0-9a-f-]{36}$/ },
    });
    for (const path of [
      '/v1/messages/batches',
      '/v1/v1/messages',
      '/messages',
      '/v1/messages/x?a=/b',
    ]) {
      t.match(await ask(origin + path, { body: {} }), shape(404, 'not_found_error'), path);
    }
    t.match(await customer.ask('/messages'), shape(405, 'invalid_request_error'));
    t.match(await customer.ask('/messages/x%2f..%2fy'), shape(400, 'invalid_request_error'));
    for (const path of ['/v1/threads/t_1/messages', '/v1/messagesx', '/v1/edits?x=/v1/messages']) {
      const { json } = await ask(origin + path, { body: {} });
      t.match(json, { error: { type: 'not_found_error', code: null, param: null } }, path);
      t.same(Object.keys(json), ['error']);
    }
  },
);
