import { html } from 'hono/html';
import { listModels } from '../domain/gate.ts';
import type { Model } from '../domain/model.ts';
import { readCompany } from '../store/directory.ts';
import type { MintedKey } from '../store/key.ts';
import { type PageContext, read } from './context.ts';
import type { Html } from './html.ts';
import { companyHeading, copyable, page } from './layout.ts';

/** The only page that ever shows a key. */
export async function revealPage(c: PageContext, key: MintedKey, replaced: Html | string = ''): Promise<Response> {
  const company = await read(c, (sql) => readCompany(sql, key.company_id));
  const callable = listModels(company).filter(({ slug }) => key.allowed_model_slugs?.includes(slug) ?? true);
  const { curl, sdk } = snippetsFor(c.var.services.publicUrl, key, callable);
  const body = html`${companyHeading(c, company)}<h1>Your new key</h1>
<div class="notice strong" role="status"><strong>This is the only time the key is shown.</strong> Store it now; a lost key is revoked and replaced by a new one.</div>
${replaced}
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
