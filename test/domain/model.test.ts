import t from 'tap';
import { SLUG } from '../../src/domain/field.ts';
import { likelyKind, proposedSlug } from '../../src/domain/model.ts';

t.test('a public name is proposed from the internal one', async (t) => {
  const taken = new Set(['gpt-4o']);
  for (const [upstream, slug] of [
    ['fast', 'fast'],
    ['azure/gpt-4o-mini', 'gpt-4o-mini'],
    ['azure/eu/gpt-4o', 'azure-eu-gpt-4o'], // the short one is taken
    ['gpt-4o', ''], // nothing is left to propose
    ['qwen2.5:7b', 'qwen2.5:7b'],
    ['Qwen3 (8B)', 'Qwen3-8B'],
    ['models/', 'models'],
    ['-x', 'x'],
    ['模型', ''],
    ['a'.repeat(200), 'a'.repeat(128)],
  ] as const) {
    t.equal(proposedSlug(upstream, taken), slug, upstream);
    if (slug !== '') t.match(slug, SLUG);
  }
});

t.test('the kind is guessed from the name', async (t) => {
  for (const name of [
    'text-embedding-3-small',
    'nomic-embed-text',
    'BAAI/bge-m3',
    'intfloat/e5-large',
    'all-MiniLM-L6',
  ])
    t.equal(likelyKind(name), 'embedding', name);
  for (const name of ['BAAI/bge-reranker-v2-m3', 'rerank-v3.5', 'Qwen3-Reranker-0.6B'])
    t.equal(likelyKind(name), 'rerank', name);
  for (const name of ['gpt-4o', 'llama-3.1-8b', 'phi-e52', 'command-r']) t.equal(likelyKind(name), 'chat', name);
});
