/** What tells the endpoints that run a model from each other: path, request body and stream dialect. */
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
    lastEvent: /\nevent: ?response\.(?:in)?complete/,
  },
  messages: {
    path: '/messages',
    limit: 'max_tokens',
    prompt: '"system":"Answer briefly.","messages":[{"role":"user","content":',
    lastEvent: /\nevent: ?message_stop/,
  },
  embeddings: { path: '/embeddings', limit: '', prompt: '"input":', lastEvent: /$^/ },
} as const;

/** Name of an endpoint. */
export type Endpoint = keyof typeof ENDPOINTS;
