import { json } from 'node:stream/consumers';
import { isEligible } from '../../domain/assistant.ts';
import type { Company } from '../../domain/company.ts';
import { readMaxTokens, readSlug, readText } from '../../domain/field.ts';
import { admitModel } from '../../domain/gate.ts';
import type { Words } from '../../domain/language/en.ts';
import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { changeAssistant, createAssistant, removeAssistant } from '../../operations/assistant.ts';
import { findAssistant, type ListedAssistant } from '../../store/company/assistant.ts';
import { listModels } from '../../store/company/model.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { type AssistantSort, pageOfAssistants } from '../../store/lists/page.ts';
import { callerOf } from '../page/caller.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
  readOfCompany,
  removal,
} from '../page/context.ts';
import { field, formState, idempotencyInput, idempotentId, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  type Cells,
  cancelLink,
  clipped,
  companyHeading,
  dangerLink,
  linkButton,
  muted,
  page,
  rowMenu,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { callApi, figuresOf, MODEL_CALL, modelPicker, requestIdOf } from './api-client.ts';
import { playgroundTitle } from './playground.ts';

const BASE = '/companies/:company/assistants';
const RUN = `${BASE}/:assistant/run`;
const { name, system_prompt, model_slug, temperature, max_tokens, visibility, project_id } =
  ASSISTANT;

/** A company's assistants (spec section 2.6): who sees them, and runs of them. */
export const assistantRoutes: readonly Route[] = [
  pageAt(BASE, 'assistant.read', listPage),
  pageAt(`${BASE}/new`, 'assistant.write', formPage),
  formAt(`${BASE}/new`, 'assistant.write', create, { long: true, page: formPage }),
  pageAt(`${BASE}/:assistant`, 'assistant.write', formPage),
  formAt(`${BASE}/:assistant`, 'assistant.write', edit, { long: true, page: formPage }),
  pageAt(RUN, 'assistant.run', runPage),
  formAt(RUN, 'assistant.run', run, { ...MODEL_CALL, page: runPage }),
  ...askedFirst(`${BASE}/:assistant/remove`, 'assistant.write', askRemoval, remove),
];

async function listPage(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const base = `/companies/${id}/assistants`;
  const { assistants: words, frame } = c.var.format.words;
  const sorts = { name: words.assistant };
  const query = listQuery<AssistantSort>(c, sorts);
  const [company, assistants] = await read(
    c,
    async (sql) => [await readCompany(sql, id), await pageOfAssistants(sql, id, query)] as const,
  );
  const cells: Cells<ListedAssistant> = {
    [words.assistant]: ({ id, name }) => html`${clipped(name)} <code class="id">${id}</code>`,
    [words.inApi]: (assistant) => eligibility(assistant, words),
    [words.defaultModel]: (assistant) => modelState(assistant, company, words),
    [words.settings]: (assistant) => settingsOf(assistant, c.var.format),
    [frame.actions]: ({ id, name }) =>
      !mayNow(c, 'assistant.write')
        ? muted(frame.none)
        : rowMenu(
            c.var,
            name,
            html`${linkButton(`${base}/${id}`, words.edit, name)}
${linkButton(`${base}/${id}/run`, words.try, name)}`,
          ),
  };
  const body = html`${companyHeading(c)}
<div class="title-row"><h1>${words.title}</h1>${mayNow(c, 'assistant.write') ? html`<a class="button primary" href="${base}/new">${words.new}</a>` : ''}</div>
<p class="lead">${words.lead(html`<code>POST /assistants/{id}/run</code>`)}</p>
${list(c, { path: base, caption: words.caption, cells, sorts, empty: mayNow(c, 'assistant.write') ? html`${words.noneCreate((text) => html`<a href="${base}/new">${text}</a>`)}` : words.none }, query, assistants)}`;
  return page(c, words.of(company.name), body);
}

/** Whether the API shows an assistant, and if not, why. */
function eligibility(
  { visibility, project_id }: ListedAssistant,
  words: Words['assistants'],
): Html {
  if (isEligible(visibility, project_id)) return badge('good', words.visible);
  const why =
    visibility === 'company' ? words.hasProject : words.sharedWith(words.visibilities[visibility]);
  return html`${badge('plain', '404')}<br>${muted(why)}`;
}

function modelState(
  { model_slug }: ListedAssistant,
  company: Company,
  words: Words['assistants'],
): Html {
  if (model_slug === null) return muted(words.noModel);
  try {
    admitModel(company, model_slug, 'chat', null);
    return html`<code>${model_slug}</code>`;
  } catch (error) {
    const why = (error as { status: number }).status === 403 ? words.blocked : words.notAvailable;
    return html`<code>${model_slug}</code><br>${badge('warn', why)}`;
  }
}

function settingsOf({ temperature, max_tokens }: ListedAssistant, format: Format): string {
  const words = format.words.assistants;
  const parts = [
    temperature !== null && words.temperature(format.decimal(temperature)),
    max_tokens !== null && words.atMost(format.count(max_tokens)),
  ];
  return parts.filter((part) => part !== false).join(', ') || words.ownSettings;
}

/** The form of a new assistant, or of the one in the path. */
async function formPage(c: PageContext, form: Form): Promise<Response> {
  const isNew = c.req.param('assistant') === undefined;
  const [company, { assistant, models }] = await readOfCompany(c, async (sql, id) => ({
    assistant: isNew ? null : await findAssistant(sql, param(c, 'assistant'), id),
    models: await listModels(sql, id),
  }));
  const path = `/companies/${company.id}/assistants/${assistant?.id ?? 'new'}`;
  const state = formState(form, path);
  const slugs = [...new Set(models.filter(({ kind }) => kind === 'chat').map(({ slug }) => slug))];
  const current = assistant?.model_slug ?? '';
  if (current !== '' && !slugs.includes(current)) slugs.push(current);
  const { assistants: words } = state.words;
  const choices = [['', words.noDefault], ...slugs.map((slug) => [slug, slug])] as [
    string,
    string,
  ][];
  const title = assistant === null ? words.new : words.editTitle(assistant.name);
  const body = html`${companyHeading(c)}<h1>${title}</h1>
<section class="card">${state.summary}
${saveForm(
  c,
  path,
  html`${assistant === null ? idempotencyInput() : lockInput(state, assistant, ASSISTANT)}
${settingFields(state, { name, system_prompt }, assistant)}${settingFields(state, { model_slug }, assistant, { choices })}
<div class="pair">${settingFields(state, { temperature, max_tokens }, assistant)}</div>
${settingFields(state, { visibility, project_id }, assistant)}`,
  words.save,
  html`${cancelLink(c, `/companies/${company.id}/assistants`)}${
    assistant === null ? '' : html` ${dangerLink(`${path}/remove`, words.remove)}`
  }`,
)}</section>`;
  return page(c, title, body);
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const company_id = param(c, 'company');
  const id = idempotentId(form);
  const asked = { ...readSettings(form, ASSISTANT), id, company_id };
  form.check();
  const caller = callerOf(c, form, ASSISTANT);
  await change(c, (sql) => createAssistant(sql, caller, asked));
  return backTo(c, `/companies/${company_id}/assistants`, 'created');
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const [company, id] = [param(c, 'company'), param(c, 'assistant')];
  const base = `/companies/${company}/assistants`;
  const changes = readSettings(form, ASSISTANT);
  form.check();
  await change(c, async (sql) => {
    const find = () => findAssistant(sql, id, company);
    const page = `${base}/${id}`;
    await lockEdited(c, sql, form, {
      table: 'assistants',
      id,
      company,
      settings: ASSISTANT,
      changes,
      find,
      page,
    });
    await changeAssistant(sql, callerOf(c, form, ASSISTANT), id, company, changes);
  });
  return backTo(c, base, 'saved');
}

async function askRemoval(c: PageContext) {
  const company = param(c, 'company');
  const { name } = await read(c, (sql) => findAssistant(sql, param(c, 'assistant'), company));
  const { removeHeading, removeText, removeButton } = c.var.format.words.assistants;
  const text = html`<p>${removeText}</p>`;
  return {
    title: removeHeading(name),
    text,
    button: removeButton,
    back: `/companies/${company}/assistants`,
  };
}

async function remove(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  await removal(c, (sql) => removeAssistant(sql, param(c, 'assistant'), company));
  return backTo(c, `/companies/${company}/assistants`, 'removed');
}

async function runPage(c: PageContext, form: Form, result: Html | string = ''): Promise<Response> {
  const id = param(c, 'company');
  const [company, assistant] = await read(
    c,
    async (sql) =>
      [await readCompany(sql, id), await findAssistant(sql, param(c, 'assistant'), id)] as const,
  );
  const path = `/companies/${id}/assistants/${assistant.id}/run`;
  const state = formState(form, path);
  const { assistants: words, form: forms } = state.words;
  const before =
    assistant.model_slug === null ? [] : [['', words.theDefault(assistant.model_slug)] as const];
  const playground = (text: string) => html`<a href="/companies/${id}/playground">${text}</a>`;
  const body = html`${companyHeading(c)}<h1>${words.tryTitle(assistant.name)}</h1>
<p class="lead">${words.tryLead(playgroundTitle(c), playground)}</p>
${isEligible(assistant.visibility, assistant.project_id) ? '' : html`<p class="notice warn-notice">${words.notShown}</p>`}
<section class="card">${state.summary}
${saveForm(
  c,
  path,
  html`${field(state, { name: 'message', label: words.message, type: 'textarea', rows: 4, required: true })}
${modelPicker(company, state, { name: 'model_slug', value: '', before })}
${field(state, { name: 'max_tokens', label: words.maxTokens, inputmode: 'numeric', hint: state.words.playground.optional })}`,
  words.run,
  linkButton(`/companies/${id}/assistants`, forms.back),
)}</section>
${result}`;
  return page(c, words.tryTitle(assistant.name), body);
}

async function run(c: PageContext, form: Form): Promise<Response> {
  const message = form.required('message', readText);
  const model_slug = form.optional('model_slug', readSlug);
  const max_tokens = form.optional('max_tokens', form.numeric(readMaxTokens));
  form.check();
  const response = await callApi(c, `/assistants/${param(c, 'assistant')}/run`, {
    messages: [{ role: 'user', content: message }],
    ...(model_slug === null ? {} : { model_slug }),
    ...(max_tokens === null ? {} : { max_tokens }),
  });
  const { text, model, error } = (await json(response)) as {
    text?: string;
    model?: string;
    error?: { message: string; type: string; code: string | null };
  };
  const status = String(response.statusCode);
  const { assistants: words, playground } = form.words;
  const request = requestIdOf(response);
  const figures = html`${muted(await figuresOf(c, request, error !== undefined))}<br><a href="/companies/${param(c, 'company')}/requests/${request}">${playground.became}</a>`;
  const result =
    error === undefined
      ? html`<section class="card" role="status"><h2>${playground.answer}</h2><p class="answer">${text ?? ''}</p>
<p>${badge('good', status)}${words.by(html`<code>${model ?? ''}</code>`)}<br>${figures}</p></section>`
      : html`<section class="card" role="alert"><h2>${words.refused}</h2><p>${badge('bad', status)} ${error.message}</p>
<p class="muted">${words.typeAndCode({ type: html`<code>${error.type}</code>`, code: html`<code>${error.code ?? 'null'}</code>` })}<br>${figures}</p></section>`;
  return runPage(c, form, result);
}
