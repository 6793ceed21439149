import t from 'tap';
import { admitBudget } from '../../src/domain/budget.ts';
import type { Company } from '../../src/domain/company.ts';
import { GatewayError } from '../../src/domain/errors.ts';
import { admitModel, listModels } from '../../src/domain/gate.ts';
import type { Model, ModelKind } from '../../src/domain/model.ts';
import { parseEur, parsePrices } from '../../src/domain/money.ts';

function model(slug: string, more: { kind?: ModelKind; euHosted?: boolean; upstream?: string } = {}): Model {
  const { kind = 'chat', euHosted = true, upstream = `internal/${slug}` } = more;
  return { slug, upstream, kind, euHosted, acceptsTokens: false, prices: parsePrices('1', '2'), created: 1 };
}

function company(more: Partial<Company> = {}): Company {
  const sharedModels = new Map(
    [model('plain'), model('abroad', { euHosted: false }), model('vectors', { kind: 'embedding' })].map((m) => [
      m.slug,
      m,
    ]),
  );
  const ownModels = new Map();
  return {
    id: 'c',
    name: 'C',
    disabledSlugs: new Set(),
    allowNonEu: false,
    budget: null,
    strict: false,
    limits: null,
    ownModels,
    sharedModels,
    ...more,
  };
}

function refusal(run: () => unknown): GatewayError {
  try {
    run();
  } catch (error) {
    if (error instanceof GatewayError) return error;
  }
  throw new Error('nothing was refused');
}

t.test('a disabled model is refused exactly as an unknown one', async (t) => {
  const disabled = refusal(() => admitModel(company({ disabledSlugs: new Set(['plain']) }), 'plain', 'chat'));
  const unknown = refusal(() => admitModel(company({ sharedModels: new Map() }), 'plain', 'chat'));
  t.equal(disabled.status, 404);
  t.equal(disabled.body, unknown.body);
});

t.test('a disabled model outside the EU is 404, not 403', async (t) => {
  t.equal(refusal(() => admitModel(company({ disabledSlugs: new Set(['abroad']) }), 'abroad', 'chat')).status, 404);
});

t.test('a model outside the EU needs the company to allow it', async (t) => {
  t.equal(refusal(() => admitModel(company(), 'abroad', 'chat')).code, 'non_eu_model_blocked');
  t.equal(admitModel(company({ allowNonEu: true }), 'abroad', 'chat').slug, 'abroad');
});

t.test('a model of the other kind is not found, in words that name its endpoint', async (t) => {
  const vectors = refusal(() => admitModel(company(), 'vectors', 'chat', 'model_slug'));
  t.match(vectors, { status: 404, type: 'not_found_error', code: null, param: 'model_slug', message: /\/embeddings/ });
  const plain = refusal(() => admitModel(company(), 'plain', 'embedding'));
  t.match(plain, { status: 404, type: 'not_found_error', code: null, param: 'model', message: /\/chat\/completions/ });
});

t.test('a model of the other kind that the company may not list is refused exactly as an unknown one', async (t) => {
  const unknown = (slug: string) => refusal(() => admitModel(company({ sharedModels: new Map() }), slug, 'embedding'));
  const disabled = company({ disabledSlugs: new Set(['plain']) });
  t.equal(refusal(() => admitModel(disabled, 'plain', 'embedding')).body, unknown('plain').body);
  t.equal(refusal(() => admitModel(company(), 'abroad', 'embedding')).body, unknown('abroad').body);
  t.match(refusal(() => admitModel(company({ allowNonEu: true }), 'abroad', 'embedding')).message, 'is a chat model');
});

t.test("a company's own model wins over a shared one of the same slug", async (t) => {
  const own = model('plain', { upstream: 'own' });
  t.equal(admitModel(company({ ownModels: new Map([['plain', own]]) }), 'plain', 'chat').upstream, 'own');
});

t.test('the list shows what may be used, sorted', async (t) => {
  const slugs = (c: Company): string[] => listModels(c).map((listed) => listed.slug);
  t.same(slugs(company()), ['plain', 'vectors']);
  t.same(slugs(company({ allowNonEu: true })), ['abroad', 'plain', 'vectors']);
  t.same(slugs(company({ disabledSlugs: new Set(['plain']) })), ['vectors']);
});

t.test('the budget refuses from the very femto-euro at which it is reached', async (t) => {
  const limited = company({ budget: parseEur('10') });
  t.doesNotThrow(() => admitBudget(limited, parseEur('9.999999999999999')));
  t.equal(refusal(() => admitBudget(limited, parseEur('10'))).status, 402);
  t.doesNotThrow(() => admitBudget(company(), parseEur('1000000')), 'no budget, no limit');
});
