import { createCohere } from '@ai-sdk/cohere';
import { CohereRerank } from '@langchain/cohere';
import { rerank } from 'ai';
import { CohereClient, CohereClientV2 } from 'cohere-ai';

const { TOLLGATE_URL: url, TOLLGATE_KEY: key, WORD: word } = process.env;
const host = new URL(url).origin;
const model = 'demo-rerank';
const query = 'Where is the station?';
const documents = ['Rice is a plant.', `The station is behind the bridge, says ${word}.`];

/** @param {string} name @param {number | undefined} index */
function check(name, index) {
  if (index !== 1) throw new Error(`${name}: document ${index} is first`);
}

/** What a client says of a model that does not exist. */
async function refused(name, call) {
  const error = await call().then(
    () => new Error('nothing was thrown'),
    (thrown) => thrown,
  );
  if (!/does not exist/.test(error.message)) throw new Error(`${name}: ${error.message}`);
}

const v1 = new CohereClient({ token: key, environment: host });
const v2 = new CohereClientV2({ token: key, environment: host });
const told = await v1.rerank({
  model,
  query,
  documents: documents.map((text) => ({ text })),
  returnDocuments: true,
});
check('cohere-ai, version 1', told.results[0]?.index);
if (!told.results[0].document.text.includes(word)) throw new Error('the document is missing');
check(
  'cohere-ai, version 2',
  (await v2.rerank({ model, query, documents, topN: 1 })).results[0]?.index,
);
await refused('cohere-ai', () => v2.rerank({ model: 'none', query, documents }, { maxRetries: 0 }));

const langchain = new CohereRerank({ client: v1, model, topN: 1 });
check('@langchain/cohere', (await langchain.rerank(documents, query))[0]?.index);

for (const baseURL of [url, `${host}/v2`]) {
  const cohere = createCohere({ baseURL, apiKey: key });
  const { ranking, rerankedDocuments } = await rerank({
    model: cohere.reranking(model),
    query,
    documents,
  });
  check('@ai-sdk/cohere', ranking[0]?.originalIndex);
  console.log(rerankedDocuments[0]);
  await refused('@ai-sdk/cohere', () =>
    rerank({ model: cohere.reranking('none'), query, documents, maxRetries: 0 }),
  );
}
