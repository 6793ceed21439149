/** Path, request body and last event of the endpoints that run a model. Some routers send no `event:` lines. */
export const ENDPOINTS = {
  chat: {
    path: '/chat/completions',
    limit: 'max_tokens',
    prompt: '"messages":[{"role":"system","content":"Answer briefly."},{"role":"user","content":',
    lastEvent: /\ndata: ?\[DONE\]/,
  },
  responses: {
    path: '/responses',
    limit: 'max_output_tokens',
    prompt: '"input":[{"role":"system","content":"Answer briefly."},{"role":"user","content":',
    lastEvent: /\n(?:event: ?|data: ?\{"type": ?")response\.(?:in)?complete/,
  },
  messages: {
    path: '/messages',
    limit: 'max_tokens',
    prompt: '"system":"Answer briefly.","messages":[{"role":"user","content":',
    lastEvent: /\n(?:event: ?|data: ?\{"type": ?")message_stop/,
  },
  embeddings: { path: '/embeddings', limit: '', prompt: '"input":', lastEvent: /$^/ },
} as const;

/** Name of an endpoint. */
export type Endpoint = keyof typeof ENDPOINTS;
