import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Outcome } from '../../domain/usage.ts';
import { mintPlaygroundKey } from '../../operations/key.ts';
import { clientFor } from '../../runtime/node-http.ts';
import { change, type PageContext, param } from '../page/context.ts';
import type { PagesSettings } from '../process/settings.ts';

/**
 * Calls of the gateway's own API on behalf of the user who is signed in: all checks, the budget and the ledger hold as for any
 * client. The key is that of the person's playground in the company of the path. Its text is kept in memory alone,
 * and for less than it works. Another gateway may have given the key another text meanwhile; then the API answers 401.
 */

const RUN_MS = 300_000;
const BOOKED_TRIES = 5; // the API itself waits a second for a record; that of a client that left comes after three

/**
 * @param body null: GET, otherwise POST
 * @param signal ends the call
 * @throws Error when no answer comes; RefusedChange when the person's playground was revoked
 */
export async function callApi(
  c: PageContext,
  path: string,
  body: object | null,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  const { services, session } = c.var;
  const { email, role } = session.user;
  const player = { company_id: param(c, 'company'), email, role };
  const name = `${player.company_id} ${player.email}`;
  const { texts } = services;
  const mint = (): Promise<string> => {
    const text = change(c, (sql) => mintPlaygroundKey(sql, services.keyPrefix, player));
    texts.set(name, text); // at once: calls that begin meanwhile wait for it, since each new text ends the one before
    text.catch(() => texts.get(name) === text && texts.delete(name));
    return text;
  };
  const text = texts.get(name) ?? mint();
  const response = await send(services, path, await text, body, signal);
  if (response.statusCode !== 401) return response;
  response.resume();
  const newer = texts.get(name); // of another call that found the same
  return send(services, path, await (newer === undefined || newer === text ? mint() : newer), body, signal);
}

/** A call as the API shows it (contract section 5). */
interface BookedCall {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost_eur: string;
  readonly usage_source: string;
  readonly outcome: Outcome;
}

/** The booked usage of a call of this person; null when nothing was booked within seconds. */
export async function bookedCall(c: PageContext, id: string): Promise<BookedCall | null> {
  for (let tries = 1; ; tries++) {
    const response = await callApi(c, `/usage/${id}`, null);
    const answer = await json(response);
    if (response.statusCode === 200) return answer as BookedCall;
    if (tries === BOOKED_TRIES || response.statusCode !== 404) return null;
    await pause(100);
  }
}

async function send(
  { apiUrl, apiSocket }: Pick<PagesSettings, 'apiUrl' | 'apiSocket'>,
  path: string,
  key: string,
  body: object | null,
  signal: AbortSignal | undefined,
): Promise<IncomingMessage> {
  const deadline = AbortSignal.timeout(RUN_MS);
  const sent = clientFor(apiUrl).request(apiUrl + path, {
    rejectUnauthorized: false, // within this machine; the certificate has the public name
    method: body === null ? 'GET' : 'POST',
    ...(apiSocket === null ? {} : { socketPath: apiSocket }),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    signal: signal === undefined ? deadline : AbortSignal.any([deadline, signal]),
  });
  sent.on('error', () => {}); // after the head of the answer its body has the error
  sent.end(body === null ? undefined : JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return response;
}
