import { hash } from 'node:crypto';
import { readText } from '../../domain/field.ts';
import { IMPORT_COLUMNS, type ImportMistake } from '../../domain/settings/model-csv.ts';
import {
  type ImportedLine,
  type ImportResult,
  importModels,
} from '../../operations/model-import.ts';
import { changeAsOperator, type PageContext, type Route } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, muted, page, table } from '../page/layout.ts';

/** Imports models and prices from a CSV file. A preview shows the changes first. */
export const modelImportRoutes: readonly Route[] = [
  { method: 'GET', path: '/models/import', action: 'model.write', handle: importPage },
  {
    method: 'POST',
    path: '/models/import',
    action: 'model.write',
    upload: true,
    handle: importFile,
    page: importPage,
  },
];

const PATH = '/models/import';
const IMPORT_MS = 60_000; // a thousand lines make two thousand changes
const MOST_SHOWN = 200;
const MOST_ECHOED = 64 * 1024; // characters of a file that a page sends back; a longer one is chosen again
const CHANGED = html`<div class="problem" role="alert">Nothing is imported yet: the file, or what is stored, is not what the preview compared. This is what would change now.</div>`;
const TONES = { new: 'good', changed: 'warn', same: 'plain' } as const;
const EXAMPLE = `slug,upstream_model,kind,eu_hosted,input_per_1m,output_per_1m
fast,azure/gpt-4o-mini-eu,chat,true,0.15,0.60`;

async function importFile(c: PageContext, form: Form): Promise<Response> {
  const text = form.optional('csv', readText) ?? '';
  const isSure = form.checked('sure');
  const seen = form.values.get('seen');
  const isWanted = (lines: readonly ImportedLine[]) =>
    isSure && (seen === null || seen === digestOf(lines));
  const result = await changeAsOperator(c, (sql) => importModels(sql, text, isWanted), IMPORT_MS);
  if (result.mistakes.length > 0) return importPage(c, form, problems(result.mistakes), 422);
  if (isWanted(result.lines)) return c.redirect('/models?done=imported', 303);
  return importPage(
    c,
    form,
    html`${isSure ? CHANGED : ''}${preview(c, result, text)}`,
    isSure ? 409 : undefined,
  );
}

/** A digest of the changes in a preview. The file is imported only if it would still make the same changes. */
function digestOf(lines: readonly ImportedLine[]): string {
  return hash('sha256', JSON.stringify(lines), 'base64url');
}

async function importPage(
  c: PageContext,
  form: Form,
  told: Html = html``,
  status?: 409 | 422,
): Promise<Response> {
  const isShort = (form.values.get('csv') ?? '').length <= MOST_ECHOED;
  const isEchoed = form.isResumed || form.messages.size > 0 || (status === 422 && isShort);
  const state = formState(isEchoed ? form : new Form(), PATH);
  if (status !== undefined) c.status(status);
  if (status === 422) c.set('isRefused', true);
  const body = html`<h1>Import models</h1>
<p class="lead">A CSV file with a heading. Models that it does not name stay; a second import of the same file changes nothing.</p>
${told}
<section class="card"><h2>${isEchoed || form.path === null ? 'File' : 'Another file'}</h2>${state.summary}
<form method="post" action="${PATH}" enctype="multipart/form-data" class="stack">${csrfInput(c)}
${field(state, { name: 'file', type: 'file', label: 'CSV file', hint: 'Up to 1 MiB, as UTF-8.' })}
${field(state, { name: 'csv', type: 'textarea', label: 'Or its text', rows: 8 })}
<div class="actions"><button class="primary">Show what would change</button> <a class="button quiet" href="/models">Back to the models</a></div></form></section>
<section class="card"><h2>Columns</h2>
<p>${IMPORT_COLUMNS}.</p>
<p>Prices are plain decimal numbers with a dot, in EUR per 1000 (<code>1k</code>) or 1,000,000 (<code>1m</code>) tokens as the heading says. <code>valid_from</code> is a date or a time at which the line's prices begin; without it they hold from now on. <code>company</code> is the name or id of the one company that has the model. Cost prices are what you pay, and begin with a day.</p>
<pre tabindex="0" aria-label="Example">${EXAMPLE}</pre></section>`;
  return page(c, 'Import models', body);
}

function problems(mistakes: readonly ImportMistake[]): Html {
  const more = mistakes.length - MOST_SHOWN;
  return html`<div class="problem" role="alert"><p>The file has ${mistakes.length === 1 ? 'a mistake' : `${mistakes.length} mistakes`}. Nothing was changed.</p>
<ul>${mistakes.slice(0, MOST_SHOWN).map(({ line, column, message }) => html`<li>Line ${line}: ${column === null ? 'the line' : html`<code>${column}</code>`} ${message}</li>`)}</ul>
${more > 0 ? html`<p>And ${more} more.</p>` : ''}</div>`;
}

/** The changes that an import would make, and the form that makes them. */
function preview(c: PageContext, { lines }: ImportResult, text: string): Html {
  const { format } = c.var;
  const count = (state: ImportedLine['state']) =>
    format.count(lines.filter((line) => line.state === state).length);
  const cells = {
    Line: ({ line }: ImportedLine) => String(line),
    Model: ({ slug }: ImportedLine) => html`<code>${slug}</code>`,
    For: ({ company }: ImportedLine) => company ?? 'all',
    State: ({ state }: ImportedLine) => badge(TONES[state], state),
    Changes: ({ changes }: ImportedLine) =>
      changes.length === 0
        ? muted('none')
        : html`${changes.map((each, i) => html`${i === 0 ? '' : html`<br>`}${each}`)}`,
  };
  const changing = lines.filter(({ state }) => state !== 'same');
  return html`<section class="card"><h2>What would change</h2>
<p>${count('new')} new, ${count('changed')} changed, ${count('same')} the same. Prices are in EUR per 1000 tokens.</p>
${changing.length === 0 ? '' : table('What would change', changing.slice(0, MOST_SHOWN), { cells }, true)}
${changing.length > MOST_SHOWN ? html`<p class="muted">The first ${MOST_SHOWN}.</p>` : ''}
${
  changing.length === 0
    ? html`<p>Everything is as the file says.</p>`
    : html`<form method="post" action="${PATH}" enctype="multipart/form-data" class="actions">${csrfInput(c)}<input type="hidden" name="sure" value="true"><input type="hidden" name="seen" value="${digestOf(lines)}">${
        text.length > MOST_ECHOED
          ? field(formState(new Form(), PATH), {
              name: 'file',
              type: 'file',
              label: 'The same file again',
              required: true,
            })
          : html`<textarea name="csv" hidden aria-label="The file">
${text}</textarea>`
      }<button class="primary">Import</button></form>`
}</section>`;
}
