import t from 'tap';
import { ask } from '../support/client.ts';
import { startWorld } from '../support/world.ts';

/**
 * Requests as rerankers of programs send them, byte for byte, and what they read of the answer. `make clients` tries
 * Cohere's SDK, LangChain's and Vercel's.
 */

const world = await startWorld(t);
await world.model('fast-rank', { upstream: 'internal-demo-rerank', kind: 'rerank' });
const { key } = world.customer;
const host = new URL(world.url).origin;
const query = 'where is parseObject called';
const chunks = [
  'export function add(a: number)',
  'const parsed = parseObject(body); // is called here',
];

interface Reranker {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: object;
}

const asked = { model: 'fast-rank', query, documents: chunks };
const RERANKERS: Readonly<Record<string, Reranker>> = {
  Continue: { url: `${world.url}/rerank`, body: asked },
  "Continue's adapter for Cohere": {
    url: `${world.url}/rerank`,
    headers: { accept: 'application/json', 'x-api-key': key },
    body: asked,
  },
  'Open WebUI': { url: `${world.url}/rerank`, body: { ...asked, top_n: 2 } },
  Dify: { url: `${world.url}/rerank`, body: { ...asked, top_n: 3, return_documents: true } },
  'cohere for Python, version 1': {
    url: `${host}/v1/rerank`,
    headers: { 'x-fern-language': 'Python', 'x-client-name': 'app' },
    body: { ...asked, top_n: 2, return_documents: true, max_chunks_per_doc: 10 },
  },
  'cohere for Python, version 2': {
    url: `${host}/v2/rerank`,
    body: { ...asked, top_n: 2, max_tokens_per_doc: 4096 },
  },
};

for (const [name, { url, headers = {}, body }] of Object.entries(RERANKERS)) {
  t.test(`${name} gets a score for each document`, async (t) => {
    const type = { 'content-type': 'application/json' };
    const { status, json } = await ask(url, {
      key,
      headers: { ...headers, ...type },
      body: JSON.stringify(body),
    });
    t.equal(status, 200);
    const scores = json.results.toSorted(
      (a: { index: number }, b: { index: number }) => a.index - b.index,
    );
    t.equal(scores.length, chunks.length);
    t.ok(scores[1].relevance_score > scores[0].relevance_score);
    if ('return_documents' in body) t.equal(json.results[0].document.text, chunks[1]);
  });
}
