/** Path, headers, request body and last event of the endpoints that run a model. Some routers send no `event:` lines. */
export const ENDPOINTS = {
  chat: {
    path: '/chat/completions',
    headers: {},
    limit: 'max_tokens',
    prompt: '"messages":[{"role":"system","content":"Answer briefly."},{"role":"user","content":',
    lastEvent: /\ndata: ?\[DONE\]/,
  },
  responses: {
    path: '/responses',
    headers: {},
    limit: 'max_output_tokens',
    prompt: '"input":[{"role":"system","content":"Answer briefly."},{"role":"user","content":',
    lastEvent: /\n(?:event: ?|data: ?\{"type": ?")response\.(?:in)?complete/,
  },
  messages: {
    path: '/messages',
    headers: { 'anthropic-version': '2023-06-01' },
    limit: 'max_tokens',
    prompt: '"system":"Answer briefly.","messages":[{"role":"user","content":',
    lastEvent: /\n(?:event: ?|data: ?\{"type": ?")message_stop/,
  },
  embeddings: { path: '/embeddings', headers: {}, limit: '', prompt: '"input":', lastEvent: /$^/ },
} as const;

/** Name of an endpoint. */
export type Endpoint = keyof typeof ENDPOINTS;
