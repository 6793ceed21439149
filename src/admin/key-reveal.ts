import { randomBytes } from 'node:crypto';
import { FieldError, readUuid } from '../domain/field.ts';
import { listModels } from '../domain/gate.ts';
import type { Model } from '../domain/model.ts';
import { readCompany } from '../store/directory.ts';
import type { MintedKey } from '../store/key.ts';
import { type Claim, REVEAL_SECONDS, type RevealedKey } from '../store/key-reveal.ts';
import { type PageContext, read } from './context.ts';
import { csrfInput } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';
import { companyHeading, copyable, page } from './layout.ts';
import { onceInput } from './once.ts';

/** A key is shown by the answer to the form that made it; for a minute the same form gets the same answer again. */

/** Hidden fields of a form that makes a key: the id of the key, and a secret that only the form knows. */
export function onceInputs(): Html {
  return html`${onceInput()}<input type="hidden" name="claim" value="${randomBytes(32).toString('base64url')}">`;
}

/** Reads them. Another session gets no text of a key with them. */
export function readOnce(c: PageContext, form: Form): { readonly id: string; readonly claim: Claim } {
  const id = form.required('id', readUuid);
  const secret = form.required('claim', readSecret);
  return { id, claim: { secret, holder: `session ${c.var.session.digest.toString('hex')}` } };
}

function readSecret(text: string): string {
  if (!/^[\w-]{43}$/.test(text)) throw new FieldError('must be 32 bytes in base64url');
  return text;
}

/** The form that replaces a key at once: the old one stops, the answer shows the new one. */
export function replaceForm(c: PageContext, key: { readonly id: string; readonly company_id: string }, button: string) {
  return html`<form method="post" action="/companies/${key.company_id}/access/${key.id}/rotate" class="inline">${csrfInput(c)}${onceInputs()}<input type="hidden" name="overlap" value="0"><button class="danger">${button}</button></form>`;
}

/** The answer to a form that made a key. */
export function revealPage(c: PageContext, key: RevealedKey, replaced: Html | string = ''): Promise<Response> {
  return key.key === null ? gonePage(c, key) : shownPage(c, { ...key, key: key.key }, replaced);
}

/** The form came again too late, from another session, or with other settings. */
async function gonePage(c: PageContext, key: RevealedKey): Promise<Response> {
  const company = await read(c, (sql) => readCompany(sql, key.company_id));
  const isActive = key.state === 'active';
  const body = html`${companyHeading(c, company)}<h1>This key can no longer be shown</h1>
<section class="card"><p><strong>${key.name}</strong> <code>${key.prefix}…</code> was made by this form ${c.var.format.instant(key.created_at)}, and was shown then. A key is shown again to the same form only, and for ${REVEAL_SECONDS} seconds: after that nobody can read it.</p>
<p>${isActive ? 'If nobody stored it, replace it: it stops at once, and a new key with the same settings is shown.' : `It is ${key.state}.`}</p>
<div class="actions">${isActive ? replaceForm(c, key, 'Replace the key') : ''}
<a class="button quiet" href="/companies/${key.company_id}/access">All keys</a></div></section>`;
  c.status(410);
  return page(c, 'This key can no longer be shown', body);
}

async function shownPage(c: PageContext, key: MintedKey, replaced: Html | string): Promise<Response> {
  const company = await read(c, (sql) => readCompany(sql, key.company_id));
  const callable = listModels(company).filter(({ slug }) => key.allowed_model_slugs?.includes(slug) ?? true);
  const { curl, sdk } = snippetsFor(c.var.services.publicUrl, key, callable);
  const body = html`${companyHeading(c, company)}<h1>Your new key</h1>
<div class="notice strong" role="status"><strong>This is the only time the key is shown.</strong> Store it now; a lost key is replaced by a new one. For ${REVEAL_SECONDS} seconds a reload of this page shows it again.</div>
${replaced}
${callable.length > 0 ? '' : html`<p class="notice warn-notice">This key can call no model yet: see the <a href="/companies/${key.company_id}/models">models</a> of the company.</p>`}
<section class="card reveal"><h2>${key.name}</h2>
${copyable('key', 'API key', key.key)}
${copyable('curl', 'Try it with curl', curl)}
${copyable('sdk', 'Use it with the OpenAI SDK', sdk)}
</section>
<p><a class="button primary" href="/companies/${key.company_id}/access">I have stored the key</a></p>`;
  return page(c, 'Your new key', body);
}

/** A call with curl and one with the OpenAI SDK that fit the scopes of a key. */
function snippetsFor(base: string, { key, scopes }: MintedKey, listed: readonly Model[]) {
  const slugOf = (wanted: Model['kind']) => listed.find(({ kind }) => kind === wanted)?.slug;
  const [chat, embedding] = [slugOf('chat'), slugOf('embedding')];
  const client = `import OpenAI from 'openai';\n\nconst client = new OpenAI({\n  baseURL: '${base}',\n  apiKey: process.env.TOLLGATE_API_KEY,\n});\n`;
  const post = (path: string, body: object) =>
    `curl ${base}${path} \\\n  -H 'Authorization: Bearer ${key}' \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  if (scopes.includes('chat') && chat !== undefined) {
    return {
      curl: post('/chat/completions', { model: chat, messages: [{ role: 'user', content: 'Hello!' }] }),
      sdk: `${client}const answer = await client.chat.completions.create({\n  model: '${chat}',\n  messages: [{ role: 'user', content: 'Hello!' }],\n});\nconsole.log(answer.choices[0].message.content);`,
    };
  }
  if (scopes.includes('embeddings') && embedding !== undefined) {
    return {
      curl: post('/embeddings', { model: embedding, input: 'Hello!' }),
      sdk: `${client}const answer = await client.embeddings.create({\n  model: '${embedding}',\n  input: 'Hello!',\n});\nconsole.log(answer.data[0].embedding.length);`,
    };
  }
  return {
    curl: `curl ${base}/models -H 'Authorization: Bearer ${key}'`,
    sdk: `${client}for await (const model of client.models.list()) console.log(model.id);`,
  };
}
