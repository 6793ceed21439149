import type { Scope } from '../../domain/key.ts';
import type { Model } from '../../domain/model.ts';

/** The variable of a program that has a key, named after the service: "ACME_API_KEY". */
export function keyVariable(brand: string): string {
  const name = brand
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_');
  return `${/^[A-Z]/.test(name) ? `${name.replace(/_$/, '')}_` : ''}API_KEY`;
}

/**
 * A call with curl and one with the OpenAI SDK that fit a key.
 * @param base address of the API
 * @param variable that a program reads the key from
 * @param header that proves the key, as a word of a shell
 * @param may what the key may do
 * @param callable the models that the key may call
 */
export function callSnippets(
  base: string,
  variable: string,
  header: string,
  may: readonly Scope[],
  callable: readonly Model[],
) {
  const slugOf = (wanted: Model['kind']) => callable.find(({ kind }) => kind === wanted)?.slug;
  const [chat, embedding, rerank] = [slugOf('chat'), slugOf('embedding'), slugOf('rerank')];
  const client = `import OpenAI from 'openai';\n\nconst client = new OpenAI({\n  baseURL: '${base}',\n  apiKey: process.env.${variable},\n});\n`;
  const post = (path: string, body: object) =>
    `curl ${base}${path} \\\n  -H ${header} \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  if (may.includes('chat') && chat !== undefined) {
    return {
      curl: post('/chat/completions', {
        model: chat,
        messages: [{ role: 'user', content: 'Hello!' }],
      }),
      sdk: `${client}const answer = await client.chat.completions.create({\n  model: '${chat}',\n  messages: [{ role: 'user', content: 'Hello!' }],\n});\nconsole.log(answer.choices[0].message.content);`,
    };
  }
  if (may.includes('embeddings') && embedding !== undefined) {
    return {
      curl: post('/embeddings', { model: embedding, input: 'Hello!' }),
      sdk: `${client}const answer = await client.embeddings.create({\n  model: '${embedding}',\n  input: 'Hello!',\n});\nconsole.log(answer.data[0].embedding.length);`,
    };
  }
  if (may.includes('rerank') && rerank !== undefined) {
    const asked = { model: rerank, query: 'Hello!', documents: ['Hello there!', 'Goodbye.'] };
    return {
      curl: post('/rerank', asked),
      sdk: `${client}const body = ${JSON.stringify(asked)};\nconst answer = await client.post('/rerank', { body });\nconsole.log(answer.results);`,
    };
  }
  return {
    curl: `curl ${base}/models -H ${header}`,
    sdk: `${client}for await (const model of client.models.list()) console.log(model.id);`,
  };
}
