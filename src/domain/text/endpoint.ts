import type { BookedEndpoint, FREE_ENDPOINT, LookupEndpoint } from '../usage.ts';

/** Titles of the endpoints whose calls are booked. */
export const BOOKED_ENDPOINTS: Readonly<Record<string, string>> = {
  'chat.completions': 'Chat completions',
  embeddings: 'Embeddings',
  'assistants.run': 'Assistant runs',
  responses: 'Responses',
  messages: 'Messages',
} satisfies Record<BookedEndpoint, string>;

const NOT_BOOKED = {
  'messages.count_tokens': 'Token counts',
  models: 'Models',
  usage: 'Usage',
  shed: 'Refused at once: overload',
  unknown: 'No such address',
} satisfies Record<typeof FREE_ENDPOINT | LookupEndpoint | 'shed' | 'unknown', string>;

/** Titles of all that the trail of requests names as an endpoint. */
export const ENDPOINTS: Readonly<Record<string, string>> = { ...BOOKED_ENDPOINTS, ...NOT_BOOKED };
