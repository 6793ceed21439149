import { wordsOf } from '../language/language.ts';
import { ENGLISH } from '../languages.ts';
import type { BookedEndpoint, FREE_ENDPOINT, LookupEndpoint } from '../usage.ts';

/** English titles of all that the trail of requests names as an endpoint. */
export const ENDPOINTS: Readonly<Record<string, string>> = wordsOf(ENGLISH).endpoints;

const NOT_BOOKED = {
  'messages.count_tokens': true,
  models: true,
  usage: true,
  shed: true,
  unknown: true,
} satisfies Record<typeof FREE_ENDPOINT | LookupEndpoint | 'shed' | 'unknown', true>;

/** The endpoints whose calls are booked. */
export const BOOKED_ENDPOINTS = Object.keys(ENDPOINTS).filter(
  (name): name is BookedEndpoint => !Object.hasOwn(NOT_BOOKED, name),
);

/** The title of an endpoint; another version of this program may know others. */
export function endpointText(titles: Readonly<Record<string, string>>, endpoint: string): string {
  return titles[endpoint] ?? endpoint;
}
