import { json } from 'node:stream/consumers';
import { isEligible } from '../../domain/assistant.ts';
import type { Company } from '../../domain/company.ts';
import {
  readMaxTokens,
  readName,
  readSlug,
  readTemperature,
  readText,
  readUuid,
  readVisibility,
} from '../../domain/field.ts';
import { admitModel } from '../../domain/gate.ts';
import {
  type AssistantRow,
  createAssistant,
  findAssistant,
  type ListedAssistant,
  removeAssistant,
  setAssistant,
} from '../../store/company/assistant.ts';
import { createOnce } from '../../store/company/idempotent-form.ts';
import { listModels } from '../../store/company/model.ts';
import { playgroundName } from '../../store/company/playground-key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { type AssistantSort, pageOfAssistants } from '../../store/lists/page.ts';
import { change, mayNow, type PageContext, param, type Route, read, readOfCompany, removal } from '../page/context.ts';
import { csrfInput, field, formState, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { idempotencyInput, idempotentId } from '../page/idempotent-form.ts';
import { badge, companyHeading, confirmation, muted, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { type Labels, lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { callApi } from './api-client.ts';
import { figuresOf, MODEL_CALL, modelPicker, requestIdOf } from './model-call.ts';
import { checkModels } from './restriction.ts';

const BASE = '/companies/:company/assistants';
const RUN = `${BASE}/:assistant/run`;

/** A company's assistants (spec section 2.6): who sees them, and runs of them. */
export const assistantRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action: 'assistant.read', handle: listPage },
  { method: 'GET', path: `${BASE}/new`, action: 'assistant.write', handle: formPage },
  { method: 'POST', path: `${BASE}/new`, action: 'assistant.write', long: true, handle: create, page: formPage },
  { method: 'GET', path: `${BASE}/:assistant`, action: 'assistant.write', handle: formPage },
  { method: 'POST', path: `${BASE}/:assistant`, action: 'assistant.write', long: true, handle: edit, page: formPage },
  { method: 'GET', path: RUN, action: 'assistant.run', handle: runPage },
  {
    method: 'POST',
    path: RUN,
    action: 'assistant.run',
    permits: 'modelCalls',
    ...MODEL_CALL,
    handle: run,
    page: runPage,
  },
  { method: 'GET', path: `${BASE}/:assistant/remove`, action: 'assistant.write', handle: removePage },
  { method: 'POST', path: `${BASE}/:assistant/remove`, action: 'assistant.write', handle: remove },
];

const VISIBILITIES = {
  company: 'The whole company',
  private: 'Only its maker',
  persons: 'Some persons',
  teams: 'Some teams',
  projects: 'Some projects',
} as const;

const LABELS: Labels<AssistantRow> = {
  name: 'Name',
  system_prompt: 'System prompt',
  model_slug: 'Default model',
  temperature: 'Temperature',
  max_tokens: 'Maximum tokens of an answer',
  visibility: 'Shared with',
  project_id: 'Home project',
};

const SORTS = { name: 'Name', '-created': 'Newest' };

async function listPage(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const base = `/companies/${id}/assistants`;
  const query = listQuery<AssistantSort>(c, SORTS);
  const [company, assistants] = await read(
    c,
    async (sql) => [await readCompany(sql, id), await pageOfAssistants(sql, id, query)] as const,
  );
  const cells = {
    Assistant: ({ id, name }: ListedAssistant) => html`<strong>${name}</strong><br><code class="id">${id}</code>`,
    'In the API': eligibility,
    'Default model': (assistant: ListedAssistant) => modelState(assistant, company),
    Settings: (assistant: ListedAssistant) => settingsOf(assistant, c.var.format),
    Actions: ({ id, name }: ListedAssistant) =>
      !mayNow(c, 'assistant.write')
        ? muted('none')
        : html`<span class="row-actions"><a class="button quiet" href="${base}/${id}">Edit<span class="sr"> ${name}</span></a>
<a class="button quiet" href="${base}/${id}/run">Try<span class="sr"> ${name}</span></a></span>`,
  };
  const body = html`${companyHeading(c, company)}
<div class="title-row"><h1>Assistants</h1>${mayNow(c, 'assistant.write') ? html`<a class="button primary" href="${base}/new">New assistant</a>` : ''}</div>
<p class="lead">The API runs assistants that are shared with the whole company and belong to no project, at <code>POST /assistants/{id}/run</code>.</p>
${list(c, { path: base, caption: 'Assistants of this company', cells, sorts: SORTS, empty: 'There are no assistants yet.' }, query, assistants)}`;
  return page(c, `Assistants of ${company.name}`, body);
}

/** Whether the API shows an assistant, and if not, why. */
function eligibility({ visibility, project_id }: ListedAssistant): Html {
  if (isEligible(visibility, project_id)) return badge('good', 'visible');
  const why =
    visibility === 'company'
      ? 'It has a home project.'
      : `It is shared with: ${VISIBILITIES[visibility].toLowerCase()}.`;
  return html`${badge('plain', '404')}<br>${muted(why)}`;
}

function modelState({ model_slug }: ListedAssistant, company: Company): Html {
  if (model_slug === null) return muted('none: a run must name one');
  try {
    admitModel(company, model_slug, 'chat', null);
    return html`<code>${model_slug}</code>`;
  } catch (error) {
    const why = (error as { status: number }).status === 403 ? 'blocked by the EU gate' : 'not available';
    return html`<code>${model_slug}</code><br>${badge('warn', why)}`;
  }
}

function settingsOf({ temperature, max_tokens }: ListedAssistant, format: Format): string {
  const parts = [
    temperature !== null && `temperature ${temperature}`,
    max_tokens !== null && `at most ${format.count(max_tokens)} tokens`,
  ];
  return parts.filter((part) => part !== false).join(', ') || "the model's own";
}

/** The form of a new assistant, or of the one in the path. */
async function formPage(c: PageContext, form: Form): Promise<Response> {
  const isNew = c.req.param('assistant') === undefined;
  const [company, { assistant, models }] = await readOfCompany(c, async (sql, id) => ({
    assistant: isNew ? null : await findAssistant(sql, id, param(c, 'assistant')),
    models: await listModels(sql, id),
  }));
  const path = `/companies/${company.id}/assistants/${assistant?.id ?? 'new'}`;
  const state = formState(form, path);
  const slugs = [...new Set(models.filter(({ kind }) => kind === 'chat').map(({ slug }) => slug))];
  const current = assistant?.model_slug ?? '';
  if (current !== '' && !slugs.includes(current)) slugs.push(current);
  const title = assistant === null ? 'New assistant' : `Edit ${assistant.name}`;
  const body = html`${companyHeading(c, company)}<h1>${title}</h1>
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${assistant === null ? idempotencyInput() : lockInput(state, assistant, LABELS)}
${field(state, { name: 'name', label: 'Name', value: assistant?.name ?? '', required: true })}
${field(state, { name: 'system_prompt', label: 'System prompt', type: 'textarea', rows: 8, value: assistant?.system_prompt ?? '', required: true, hint: 'Sent before the messages of every run, together with the current date.' })}
${select(state, {
  name: 'model_slug',
  label: 'Default model',
  choices: [['', 'None: every run names one'], ...slugs.map((slug) => [slug, slug] as const)],
  value: current,
})}
<div class="pair">${field(state, { name: 'temperature', label: 'Temperature', inputmode: 'decimal', value: String(assistant?.temperature ?? ''), hint: '0 to 2; empty for the model’s own.' })}
${field(state, { name: 'max_tokens', label: 'Maximum tokens of an answer', inputmode: 'numeric', value: String(assistant?.max_tokens ?? ''), hint: '1 to 32000; empty for the model’s own.' })}</div>
${select(state, {
  name: 'visibility',
  label: 'Shared with',
  choices: Object.entries(VISIBILITIES),
  value: assistant?.visibility ?? 'company',
  hint: 'The API answers 404 unless it is shared with the whole company.',
})}
${field(state, { name: 'project_id', label: 'Home project', value: assistant?.project_id ?? '', hint: 'Id of a project; an assistant with a home project is not in the API.' })}
<div class="actions"><button class="primary">Save assistant</button> <a class="button quiet" href="/companies/${company.id}/assistants">Cancel</a>${
    assistant === null ? '' : html` <a class="button danger" href="${path}/remove">Remove…</a>`
  }</div></form></section>`;
  return page(c, title, body);
}

async function readFields(c: PageContext, form: Form, before: string | null = null) {
  const fields = {
    name: form.required('name', readName),
    system_prompt: form.required('system_prompt', readText),
    model_slug: form.optional('model_slug', readSlug),
    temperature: form.optional('temperature', form.numeric(readTemperature)),
    max_tokens: form.optional('max_tokens', form.numeric(readMaxTokens)),
    visibility: form.required('visibility', readVisibility),
    project_id: form.optional('project_id', readUuid),
  };
  await checkModels(c, form, 'model_slug', [fields.model_slug], [before]);
  form.check();
  return fields;
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const company_id = param(c, 'company');
  const fields = await readFields(c, form);
  const id = idempotentId(form);
  await change(c, (sql) =>
    createOnce(sql, 'assistants', id, () => createAssistant(sql, { id, company_id, ...fields })),
  );
  return c.redirect(`/companies/${company_id}/assistants?done=created`, 303);
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const id = param(c, 'assistant');
  const { model_slug: before } = await read(c, (sql) => findAssistant(sql, company, id));
  const changes = await readFields(c, form, before);
  await change(c, async (sql) => {
    const find = () => findAssistant(sql, company, id);
    const page = `/companies/${company}/assistants/${id}`;
    const rowChange = { table: 'assistants', id, company, labels: LABELS, changes, find, page } as const;
    await lockEdited<AssistantRow>(c, sql, form, rowChange);
    await setAssistant(sql, id, changes, company);
  });
  return c.redirect(`/companies/${company}/assistants?done=saved`, 303);
}

async function removePage(c: PageContext): Promise<Response> {
  const [company, assistant] = await find(c);
  const base = `/companies/${company.id}/assistants`;
  const body = html`${companyHeading(c, company)}<h1>Remove ${assistant.name}?</h1>
${confirmation(c, { action: `${base}/${assistant.id}/remove`, button: 'Remove assistant', back: base, text: html`<p>Runs of it get 404 within a second. This cannot be undone; the audit log keeps its settings.</p>` })}`;
  return page(c, `Remove ${assistant.name}`, body);
}

async function remove(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  await removal(c, (sql) => removeAssistant(sql, param(c, 'assistant'), company));
  return c.redirect(`/companies/${company}/assistants?done=removed`, 303);
}

async function runPage(c: PageContext, form: Form, result: Html | string = ''): Promise<Response> {
  const id = param(c, 'company');
  const [company, assistant] = await read(
    c,
    async (sql) => [await readCompany(sql, id), await findAssistant(sql, id, param(c, 'assistant'))] as const,
  );
  const path = `/companies/${id}/assistants/${assistant.id}/run`;
  const state = formState(form, path);
  const before = assistant.model_slug === null ? [] : [['', `The default, ${assistant.model_slug}`] as const];
  const body = html`${companyHeading(c, company)}<h1>Try ${assistant.name}</h1>
<p class="lead">A real run through the API: the same checks, the same answer, and it is charged to the company like any other, under the key “${playgroundName(c.var.session.user)}”. <a href="/companies/${id}/playground">Try a model without an assistant</a>.</p>
${isEligible(assistant.visibility, assistant.project_id) ? '' : html`<p class="notice warn-notice">The API does not show this assistant: the run will get 404.</p>`}
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}
${field(state, { name: 'message', label: 'Message', type: 'textarea', rows: 4, required: true })}
${modelPicker(company, state, { name: 'model_slug', value: '', before })}
${field(state, { name: 'max_tokens', label: 'Maximum tokens', inputmode: 'numeric', hint: 'Optional.' })}
<div class="actions"><button class="primary">Run</button> <a class="button quiet" href="/companies/${id}/assistants">Back</a></div></form></section>
${result}`;
  return page(c, `Try ${assistant.name}`, body);
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
  const request = requestIdOf(response);
  const figures = html`${muted(await figuresOf(c, request, error !== undefined))}<br><a href="/companies/${param(c, 'company')}/requests/${request}">What became of the request</a>`;
  const result =
    error === undefined
      ? html`<section class="card" role="status"><h2>Answer</h2><p class="answer">${text ?? ''}</p>
<p>${badge('good', status)} by <code>${model ?? ''}</code><br>${figures}</p></section>`
      : html`<section class="card" role="alert"><h2>The API refused</h2><p>${badge('bad', status)} ${error.message}</p>
<p class="muted">type <code>${error.type}</code>, code <code>${error.code ?? 'null'}</code><br>${figures}</p></section>`;
  return runPage(c, form, result);
}

function find(c: PageContext) {
  return readOfCompany(c, (sql, company) => findAssistant(sql, company, param(c, 'assistant')));
}
