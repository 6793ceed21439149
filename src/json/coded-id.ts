import { equals } from './bytes.ts';

/** How an id begins that goes on with "litellm:custom_llm_provider:azure;model_id:…;response_id:…" in base64. */
const CODED = Buffer.from('resp_bGl0ZWxsbTp');
/** What an id begins with, coded or not. */
export const ID_PREFIX = 'resp_';
const OWN_ID = ';response_id:';

/** Where the provider's own id begins in the coded id with the content [start, end), or soon after; -1: it is not coded. */
export function ownIdStart(b: Buffer, start: number, end: number): number {
  if (end - start < CODED.length || !equals(b, start, CODED.length, CODED)) return -1;
  const text = Buffer.from(b.toString('latin1', start + ID_PREFIX.length, end), 'base64').toString(
    'latin1',
  );
  const at = text.lastIndexOf(OWN_ID);
  const bytes = at < 0 ? 0 : text.length - at - OWN_ID.length;
  return end - 4 * Math.floor(bytes / 3); // four characters are three bytes
}
