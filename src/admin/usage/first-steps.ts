import { modelsOf } from '../../domain/gate.ts';
import { explainRequest } from '../../domain/reports/request-explanation.ts';
import { scopesOf } from '../../domain/settings/key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import {
  type NewestKey,
  newestKey,
  readFirstCall,
  readOwnerSteps,
} from '../../store/usage/first-steps.ts';
import type { RequestRow } from '../../store/usage/request.ts';
import { mayNow, type PageContext, read } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { badge, copyable, linkButton } from '../page/layout.ts';
import { callSnippets, keyVariable } from './call-snippet.ts';
import { resultBadge } from './requests.ts';

/** The list of first steps on the first page of a company's people, and the parts that the operators' list shares. */

/** Whether the page is read again for its list, which then stays although all is done. */
export function isWatched(c: PageContext): boolean {
  return c.req.query('watched') !== undefined;
}

/** One step, with its instructions or its result. */
export interface Step {
  readonly title: string;
  readonly isDone: boolean;
  readonly text: Html | string;
}

/** A list of steps, each with its state. @param foot below it */
export function stepsCard(c: PageContext, steps: readonly Step[], foot: Html | string = ''): Html {
  const { firstSteps: words } = c.var.format.words;
  const done = steps.filter(({ isDone }) => isDone).length;
  return html`<section class="card first-steps" id="first-steps" aria-labelledby="first-steps-title"><h2 id="first-steps-title">${words.title}</h2>
<p class="muted" data-done="${words.lead({ done: done + 1, all: steps.length })}">${words.lead({ done, all: steps.length })}</p>${stepsList(c, steps)}${foot}</section>`;
}

export function stepsList(c: PageContext, steps: readonly Step[]): Html {
  const { firstSteps: words } = c.var.format.words;
  return html`<ol>${steps.map(
    ({ title, isDone, text }) =>
      html`<li><div class="step-title"><h3>${title}</h3> ${isDone ? badge('good', words.done) : html`<span class="badge plain" data-done="${words.done}">${words.open}</span>`}</div>${text === '' ? '' : html`<div>${text}</div>`}</li>`,
  )}</ol>`;
}

/**
 * The steps of a company on the first page of its people, until all are done or it has been calling since last month;
 * nothing for operators, who have a list of their own.
 */
export async function ownerSteps(c: PageContext, company: string): Promise<Html | string> {
  if (c.var.session.user.company_id === null || !mayNow(c, 'key.write')) return '';
  const steps = await read(c, (sql) =>
    readOwnerSteps(sql, company, mayNow(c, 'company-user.write')),
  );
  const { key, call, colleague, hasBegun } = steps;
  if (!isWatched(c) && (hasBegun || (key && call && colleague !== false))) return '';
  const { firstSteps: words } = c.var.format.words;
  const base = `/companies/${company}`;
  return stepsCard(c, [
    {
      title: words.key,
      isDone: key,
      text: key
        ? ''
        : html`<p>${words.keyText((text) => html`<a href="${base}/keys#create">${text}</a>`)}</p>`,
    },
    {
      title: words.call,
      isDone: call,
      text: await callStep(c, {
        company,
        key: key ? await read(c, (sql) => newestKey(sql, company)) : null,
        isBooked: call,
      }),
    },
    ...(colleague === null
      ? []
      : [
          {
            title: words.colleague,
            isDone: colleague,
            text: colleague
              ? ''
              : html`<p>${words.colleagueText((text) => html`<a href="${base}/users">${text}</a>`)}</p>`,
          },
        ]),
  ]);
}

interface CallStep {
  /** The company that has the key. */
  readonly company: string;
  /** null: there is none that works. */
  readonly key: NewestKey | null;
  /** There is a call in the ledger. */
  readonly isBooked: boolean;
  /** Of all companies: for operators. */
  readonly ofAll?: boolean;
}

/** The call that works, and what became of it so far. Where scripts run, the latter changes by itself. */
export async function callStep(
  c: PageContext,
  { company, key, isBooked, ofAll = false }: CallStep,
): Promise<Html> {
  const { firstSteps: words } = c.var.format.words;
  const state = await callState(c, ofAll ? null : company, isBooked);
  if (isBooked) return state;
  if (key === null) return html`<p>${words.needsKey}</p>`;
  return html`${await callable(c, company, key)}
${state}<p class="actions">${linkButton(c.req.path, words.again)}</p>`;
}

async function callable(c: PageContext, id: string, key: NewestKey): Promise<Html> {
  const { firstSteps: words, key: keyWords } = c.var.format.words;
  const { publicUrl, brand } = c.var.services;
  const variable = keyVariable(brand.name);
  const company = await read(c, (sql) => readCompany(sql, id));
  const models = modelsOf(company, key);
  const { curl, sdk } = callSnippets(
    publicUrl,
    variable,
    `"Authorization: Bearer $${variable}"`,
    scopesOf(key),
    models,
  );
  const link = (path: string) => (text: string) =>
    html`<a href="/companies/${id}/${path}">${text}</a>`;
  const canTry = mayNow(c, 'playground.use') && models.some(({ kind }) => kind === 'chat');
  return html`<p>${words.callText({ base: html`<code>${publicUrl}</code>`, variable: html`<code>${variable}</code>` })}</p>
${models.length > 0 ? '' : html`<p class="notice warn-notice">${keyWords.shown.noModel(link('models'))}</p>`}
${copyable(c, 'first-curl', keyWords.shown.curl, curl)}
<details class="fold"><summary>${words.inProgram}</summary>${copyable(c, 'first-sdk', keyWords.shown.sdk, sdk)}</details>
${canTry ? html`<p>${words.orTry(link('playground'))}</p>` : ''}`;
}

/** What became of the first call: the part of a page that is read again (pages.js) until a call is booked and told of. */
async function callState(c: PageContext, company: string | null, isBooked: boolean): Promise<Html> {
  const request = await read(c, (sql) => readFirstCall(sql, company, isBooked));
  const base = company === null ? '' : `/companies/${company}`;
  // a call is booked before the row that tells of it is written; of a call of long ago there may be none any more
  const live = isBooked && request !== null ? '' : html` data-live="?watched"`;
  return html`<div id="first-call" role="status"${live}>${fateOf(c, request, `${base}/requests`, isBooked)}</div>`;
}

function fateOf(c: PageContext, request: RequestRow | null, list: string, isBooked: boolean): Html {
  const { firstSteps: words, requests, explanations } = c.var.format.words;
  const came = html`<strong>${words.came}</strong>`;
  if (request === null) return html`<p>${isBooked ? came : words.noCall}</p>`;
  const { what, advice } = explainRequest(request, explanations);
  const model = request.model_slug ?? request.asked;
  return html`<p>${resultBadge(requests, request)}${model === null ? '' : html` <code>${model}</code>`} ${c.var.format.second(request.occurred_at)}</p>
<p>${isBooked ? html`${came} ` : ''}${what}${advice === null ? '' : html` <strong>${requests.toDo}</strong> ${advice}`} <a href="${list}/${request.request_id}">${words.toRequest}</a></p>`;
}
