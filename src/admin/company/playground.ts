import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { stream } from 'hono/streaming';
import type { Company } from '../../domain/company.ts';
import { readMaxTokens, readSlug, readText } from '../../domain/field.ts';
import { changeText } from '../../domain/language/refusal-text.ts';
import { Refused } from '../../domain/refusal.ts';
import { allowPlayground } from '../../operations/key.ts';
import { isPlaygroundRevoked } from '../../store/company/playground-key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import {
  change,
  formAt,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
  sharerOf,
} from '../page/context.ts';
import { actionForm, csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { companyHeading, page } from '../page/layout.ts';
import { requestsPath, seesOwnAlone } from '../usage/reach.ts';
import {
  callApi,
  callableSlugs,
  figuresOf,
  MODEL_CALL,
  missingModels,
  modelPicker,
  requestIdOf,
} from './api-client.ts';

const BASE = '/companies/:company/playground';
const action = 'playground.use';

/** Sends one prompt to a model of the company through the API, on behalf of the user who is signed in. */
export const playgroundRoutes: readonly Route[] = [
  pageAt(BASE, action, playgroundPage),
  formAt(BASE, action, run, { ...MODEL_CALL, page: playgroundPage }),
  formAt(`${BASE}/stream`, action, runStreamed, { savesNothing: true, long: true }),
  formAt(`${BASE}/allow`, action, allow),
  pageAt(`${BASE}/:request`, action, figures, { permits: 'modelCalls' }),
];

/** A part of an answer: one line of the stream that the page's script reads. */
interface Piece {
  /** Id of the request: the first piece. */
  readonly request?: string;
  readonly text?: string;
  /** Why the answer ends here. */
  readonly error?: string;
}

/** @param answer of a form that was sent without JavaScript */
async function playgroundPage(
  c: PageContext,
  form: Form,
  answer: {
    readonly text: string;
    readonly error: string;
    readonly figures: string;
    readonly request: string;
  } | null = null,
): Promise<Response> {
  const id = param(c, 'company');
  const { email } = c.var.session.user;
  const [company, isRevoked] = await read(
    c,
    async (sql) =>
      [
        await readCompany(sql, id),
        await isPlaygroundRevoked(sql, { company_id: id, email }),
      ] as const,
  );
  const path = `/companies/${id}/playground`;
  const { playground: words } = c.var.format.words;
  const body = html`${companyHeading(c, company)}<h1>${words.title}</h1>
<p class="lead">${words.lead(playgroundTitle(c))}</p>
<section class="card">${isRevoked ? allowForm(c, path) : promptForm(c, form, company, path)}</section>
<section class="card" id="result"${raw(answer === null ? ' hidden' : '')}><h2>${words.answer}</h2>
<p class="answer" data-answer>${answer?.text ?? ''}</p>
<p class="wrong" role="alert" data-error>${answer?.error ?? ''}</p>
<p class="muted" role="status" data-figures>${answer?.figures ?? ''}</p>
<p><a data-request href="${requestsPath(c, id)}/${answer?.request ?? ''}"${raw(answer === null ? ' hidden' : '')}>${words.became}</a></p></section>`;
  return page(c, words.of(company.name), body);
}

/** The name of the reader's own playground key, in the reader's language. */
export function playgroundTitle(c: PageContext): string {
  const { email, role } = c.var.session.user;
  const { playground, roles } = c.var.format.words;
  return playground.of(role === 'operator' ? roles.operator : email);
}

function allowForm(c: PageContext, path: string): Html {
  const { playground: words } = c.var.format.words;
  return html`<p>${words.revoked}</p>
${actionForm(c, `${path}/allow`, words.allow, 'primary')}`;
}

function promptForm(c: PageContext, form: Form, company: Company, path: string): Html {
  const state = formState(form, path);
  const { playground: words } = state.words;
  if (callableSlugs(company).length === 0)
    return html`<p>${words.noModel} ${missingModels(words, company)}${
      seesOwnAlone(c, company.id)
        ? ''
        : html` <a href="/companies/${company.id}/models">${words.itsModels}</a>`
    }</p>`;
  return html`${state.summary}<form method="post" action="${path}" class="stack" data-stream="${path}/stream" data-stopped="${words.stopped}" data-broken="${words.brokenBy}" data-nothing="${words.nothing}">${csrfInput(c)}
${modelPicker(company, state, { name: 'model', value: c.req.query('model') ?? '' })}
${field(state, { name: 'system', label: words.system, type: 'textarea', rows: 2, hint: words.optional })}
${field(state, { name: 'prompt', label: words.prompt, type: 'textarea', required: true })}
${field(state, { name: 'max_tokens', label: words.maxTokens, inputmode: 'numeric', hint: words.maxTokensHint })}
<div class="actions"><button class="primary">${words.send}</button> <button type="button" data-stop hidden>${words.stop}</button></div></form>`;
}

async function allow(c: PageContext): Promise<Response> {
  const { email, role } = c.var.session.user;
  const player = { company_id: param(c, 'company'), email, role };
  await change(c, (sql) => allowPlayground(sql, c.var.services.keyPrefix, player));
  return c.redirect(`/companies/${player.company_id}/playground`, 303);
}

/** The body of the call that a form asks for. @throws FormRefused */
function readCall(form: Form): object {
  const model = form.required('model', readSlug);
  const system = form.optional('system', readText);
  const content = form.required('prompt', readText);
  const max_tokens = form.optional('max_tokens', form.numeric(readMaxTokens));
  form.check();
  const messages = [
    ...(system === null ? [] : [{ role: 'system', content: system }]),
    { role: 'user', content },
  ];
  return { model, messages, ...(max_tokens === null ? {} : { max_tokens }), stream: true };
}

/** Without JavaScript: the page again, with the whole answer. */
async function run(c: PageContext, form: Form): Promise<Response> {
  const response = await callApi(c, '/chat/completions', readCall(form));
  let [text, error] = ['', ''];
  try {
    for await (const piece of piecesOf(response)) {
      text += piece.text ?? '';
      error ||= piece.error ?? '';
    }
  } catch {
    error = form.words.playground.broken;
  }
  const request = requestIdOf(response);
  const figures = await figuresOf(c, request, response.statusCode !== 200);
  return playgroundPage(c, form, { text, error, figures, request });
}

/** For the script of the page: the pieces of the answer as they come, each a line of JSON. */
async function runStreamed(c: PageContext, form: Form): Promise<Response> {
  const { modelCalls, log } = c.var.services;
  const call = readCall(form);
  const release = await modelCalls.acquire(sharerOf(c));
  const left = new AbortController();
  c.header('content-type', 'application/x-ndjson');
  return stream(c, async (output) => {
    output.onAbort(() => left.abort());
    const send = (piece: Piece) => output.write(`${JSON.stringify(piece)}\n`);
    try {
      const response = await callApi(c, '/chat/completions', call, left.signal);
      await send({ request: requestIdOf(response) });
      for await (const piece of piecesOf(response)) await send(piece);
    } catch (error) {
      if (left.signal.aborted) return;
      if (!(error instanceof Refused))
        log.warn({ reason: (error as Error).stack }, 'admin: a call of the playground failed');
      await send({
        error:
          error instanceof Refused ? changeText(form.words, error) : form.words.playground.broken,
      });
    } finally {
      release();
    }
  });
}

/** The generated text of an answer; or why there is none. @throws Error when the answer breaks off */
async function* piecesOf(response: IncomingMessage): AsyncGenerator<Piece> {
  if (response.statusCode !== 200) {
    const { error } = (await json(response)) as { error: { message: string } };
    yield { error: `${response.statusCode}: ${error.message}` };
    return;
  }
  let rest = '';
  for await (const chunk of response.setEncoding('utf8')) {
    const lines = `${rest}${chunk}`.split(/[\r\n]/);
    rest = lines.pop() as string;
    for (const [, data] of lines.map((line) => /^data: ?(\{.*)/.exec(line) ?? [])) {
      if (data === undefined) continue; // a comment, an empty line or "[DONE]"
      const { choices, error } = JSON.parse(data) as Chunk;
      const text = choices?.[0]?.delta?.content ?? '';
      if (text !== '') yield { text };
      if (error !== undefined) yield { error: error.message };
    }
  }
}

/** The members of an event that are read. */
interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[];
  readonly error?: { readonly message: string };
}

/** The usage of a call for the page's script, after the answer ended or was stopped. */
async function figures(c: PageContext): Promise<Response> {
  return c.text(await figuresOf(c, param(c, 'request'), false));
}
