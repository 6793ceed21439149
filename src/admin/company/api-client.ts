import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Company } from '../../domain/company.ts';
import { listModels, type ModelState, modelState } from '../../domain/gate.ts';
import type { Words } from '../../domain/language/en.ts';
import type { Outcome } from '../../domain/usage.ts';
import { mintPlaygroundKey } from '../../operations/key.ts';
import { clientFor } from '../../runtime/node-http.ts';
import { change, type PageContext, param } from '../page/context.ts';
import { type Choices, type FormState, select } from '../page/field.ts';
import type { Html } from '../page/html.ts';
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
 * @throws Error when no answer comes; Refused when the person's playground was revoked
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
  return send(
    services,
    path,
    await (newer === undefined || newer === text ? mint() : newer),
    body,
    signal,
  );
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
async function bookedCall(c: PageContext, id: string): Promise<BookedCall | null> {
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
    agent: false, // that of all requests may lead to a proxy (NODE_USE_ENV_PROXY)
    signal: signal === undefined ? deadline : AbortSignal.any([deadline, signal]),
  });
  sent.on('error', () => {}); // after the head of the answer its body has the error
  sent.end(body === null ? undefined : JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return response;
}

// Parts that the playground and the runs of assistants share.

/** Members of a route whose form is a prompt for a model. */
export const MODEL_CALL = { permits: 'modelCalls', savesNothing: true, long: true } as const;

/** Names of models that are not offered, for each reason. */
const MOST_NAMES = 5;
const REASONS = ['blocked', 'disabled'] as const satisfies readonly ModelState[];

/** Slugs of the chat models that a company may call. */
export function callableSlugs(company: Company): string[] {
  return listModels(company).flatMap(({ slug, kind }) => (kind === 'chat' ? [slug] : []));
}

/** A choice of the chat models that a company may call. Its hint says which others there are, and why they are missing. */
export function modelPicker(
  company: Company,
  state: FormState,
  spec: { readonly name: string; readonly value: string; readonly before?: Choices },
): Html {
  const { name, value, before = [] } = spec;
  const choices = [...before, ...callableSlugs(company).map((slug) => [slug, slug] as const)];
  const { playground: words } = state.words;
  const hint = missingModels(words, company);
  return select(state, {
    name,
    label: words.model,
    choices,
    value,
    ...(hint === '' ? {} : { hint }),
  });
}

/** Empty when the company may call all. */
export function missingModels(words: Words['playground'], company: Company): string {
  const models = [...company.sharedModels, ...company.ownModels].filter(
    ([, { kind }]) => kind === 'chat',
  );
  const slugs = [...new Set(models.map(([slug]) => slug))].sort();
  const texts = REASONS.flatMap((state) => {
    const all = slugs.filter((slug) => modelState(company, slug, false) === state);
    const more = all.length > MOST_NAMES ? words.more(all.length - MOST_NAMES) : '';
    return all.length === 0
      ? []
      : [`${all.slice(0, MOST_NAMES).join(', ')}${more} (${words[state]})`];
  });
  return texts.length === 0 ? '' : words.notOffered(texts.join('; '));
}

export function requestIdOf({ headers }: IncomingMessage): string {
  return String(headers['x-request-id']);
}

/** The usage, cost and id of a call, in words. @param isRefused it used nothing */
export async function figuresOf(c: PageContext, id: string, isRefused: boolean): Promise<string> {
  const call = isRefused ? null : await bookedCall(c, id);
  const { format } = c.var;
  const { playground: words } = format.words;
  if (call === null) return `${words.nothing} x-request-id ${id}`;
  const figures = words.figures({
    outcome: call.outcome,
    input: format.count(call.prompt_tokens),
    output: format.count(call.completion_tokens),
    isEstimated: call.usage_source === 'estimated',
    by: format.brand,
    cost: format.eurText(call.cost_eur),
  });
  return `${figures} x-request-id ${id}`;
}
