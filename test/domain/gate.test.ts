import t from 'tap';
import { admitBudget } from '../../src/domain/budget.ts';
import type { Company } from '../../src/domain/company.ts';
import { GatewayError } from '../../src/domain/errors.ts';
import { admitModel, admitTier, listModels } from '../../src/domain/gate.ts';
import type { Model, ModelKind } from '../../src/domain/model.ts';
import { Calendar } from '../../src/domain/month.ts';
import { parseEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { parseRates } from '../../src/domain/pricing/rates.ts';

function model(
  slug: string,
  more: { kind?: ModelKind; euHosted?: boolean; upstream?: string } = {},
): Model {
  const { kind = 'chat', euHosted = true, upstream = `internal/${slug}` } = more;
  return {
    slug,
    upstream,
    kind,
    euHosted,
    acceptsTokens: false,
    prices: parsePrices('1', '2'),
    created: 1,
    next: null,
  };
}

function company(more: Partial<Company> = {}): Company {
  const sharedModels = new Map(
    [
      model('plain'),
      model('abroad', { euHosted: false }),
      model('vectors', { kind: 'embedding' }),
    ].map((m) => [m.slug, m]),
  );
  const ownModels = new Map();
  return {
    id: 'c',
    name: 'C',
    disabledSlugs: new Set(),
    allowNonEu: false,
    budget: null,
    dailyBudget: null,
    strict: false,
    limits: null,
    ownModels,
    sharedModels,
    listedModels: sharedModels,
    factors: null,
    ...more,
  };
}

function attempt(run: () => unknown): boolean {
  try {
    run();
    return true;
  } catch {
    return false;
  }
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
  const disabled = refusal(() =>
    admitModel(company({ disabledSlugs: new Set(['plain']) }), 'plain', 'chat'),
  );
  const unknown = refusal(() => admitModel(company({ sharedModels: new Map() }), 'plain', 'chat'));
  t.equal(disabled.status, 404);
  t.equal(disabled.body, unknown.body);
});

t.test('a disabled model outside the EU is 404, not 403', async (t) => {
  t.equal(
    refusal(() => admitModel(company({ disabledSlugs: new Set(['abroad']) }), 'abroad', 'chat'))
      .status,
    404,
  );
});

t.test('a model outside the EU needs the company to allow it', async (t) => {
  t.equal(refusal(() => admitModel(company(), 'abroad', 'chat')).code, 'non_eu_model_blocked');
  t.equal(admitModel(company({ allowNonEu: true }), 'abroad', 'chat').slug, 'abroad');
});

t.test('a model of the other kind is not found, in words that name its endpoint', async (t) => {
  const vectors = refusal(() => admitModel(company(), 'vectors', 'chat', 'model_slug'));
  t.match(vectors, {
    status: 404,
    type: 'not_found_error',
    code: null,
    param: 'model_slug',
    message: /\/embeddings/,
  });
  const plain = refusal(() => admitModel(company(), 'plain', 'embedding'));
  t.match(plain, {
    status: 404,
    type: 'not_found_error',
    code: null,
    param: 'model',
    message: /\/chat\/completions/,
  });
});

t.test(
  'a model of the other kind that the company may not list is refused exactly as an unknown one',
  async (t) => {
    const unknown = (slug: string) =>
      refusal(() => admitModel(company({ sharedModels: new Map() }), slug, 'embedding'));
    const disabled = company({ disabledSlugs: new Set(['plain']) });
    t.equal(refusal(() => admitModel(disabled, 'plain', 'embedding')).body, unknown('plain').body);
    t.equal(
      refusal(() => admitModel(company(), 'abroad', 'embedding')).body,
      unknown('abroad').body,
    );
    t.match(
      refusal(() => admitModel(company({ allowNonEu: true }), 'abroad', 'embedding')).message,
      'is a chat model',
    );
  },
);

t.test("a company's own model wins over a shared one of the same slug", async (t) => {
  const own = model('plain', { upstream: 'own' });
  t.equal(
    admitModel(company({ ownModels: new Map([['plain', own]]) }), 'plain', 'chat').upstream,
    'own',
  );
});

t.test('the list shows what may be used, sorted', async (t) => {
  const slugs = (c: Company): string[] => listModels(c).map((listed) => listed.slug);
  t.same(slugs(company()), ['plain', 'vectors']);
  t.same(slugs(company({ allowNonEu: true })), ['abroad', 'plain', 'vectors']);
  t.same(slugs(company({ disabledSlugs: new Set(['plain']) })), ['vectors']);
});

t.test(
  'a model that the key is not allowed is refused exactly as an unknown one, whatever it is',
  async (t) => {
    const allowed = new Set(['plain', 'gone']);
    for (const [slug, kind] of [
      ['vectors', 'embedding'],
      ['vectors', 'chat'], // without a word about its endpoint
      ['abroad', 'chat'], // 404 comes before the 403 of the EU gate
      ['abroad', 'embedding'],
    ] as const) {
      const unknown = refusal(() => admitModel(company({ sharedModels: new Map() }), slug, kind));
      t.equal(
        refusal(() => admitModel(company(), slug, kind, 'model', allowed)).body,
        unknown.body,
      );
    }
    t.equal(admitModel(company(), 'plain', 'chat', 'model', allowed).slug, 'plain');
    t.match(
      refusal(() => admitModel(company(), 'plain', 'embedding', 'model', allowed)).message,
      'is a chat model',
    );
  },
);

t.test(
  'a key only narrows: what it lists and calls is what its company may, and it is allowed',
  async (t) => {
    const slugs = ['plain', 'abroad', 'vectors', 'own', 'unknown'];
    const subsets = Array.from({ length: 2 ** slugs.length }, (_, bits) =>
      slugs.filter((_, n) => bits & (1 << n)),
    );
    const ownModels = new Map([['own', model('own')]]);
    const calls = (c: Company, allowed: ReadonlySet<string> | null): string[] =>
      slugs.flatMap((slug) =>
        (['chat', 'embedding'] as const)
          .filter((kind) => attempt(() => admitModel(c, slug, kind, 'model', allowed)))
          .map((kind) => `${kind} ${slug}`),
      );
    for (const disabled of subsets) {
      for (const allowNonEu of [false, true]) {
        const owner = company({ disabledSlugs: new Set(disabled), allowNonEu, ownModels });
        const plain = {
          list: listModels(owner).map(({ slug }) => slug),
          calls: calls(owner, null),
        };
        for (const allowed of subsets) {
          const names = new Set(allowed);
          const listed = listModels(owner, names).map(({ slug }) => slug);
          const called = calls(owner, names);
          const isAllowed = (slug: string): boolean => names.has(slug.split(' ').at(-1) as string);
          const right =
            `${listed}` === `${plain.list.filter(isAllowed)}` &&
            `${called}` === `${plain.calls.filter(isAllowed)}`;
          if (!right)
            t.fail(`disabled ${disabled}, allowed ${allowed}: lists ${listed}, calls ${called}`);
        }
      }
    }
  },
);

t.test('a budget refuses from the very femto-euro at which it is reached', async (t) => {
  const calendar = new Calendar('UTC');
  const at = Date.parse('2026-11-21T12:00:00Z');
  const admit = (budget: string | null, spent: string, owner?: 'key') => () =>
    admitBudget(budget === null ? null : parseEur(budget), parseEur(spent), calendar, at, owner);
  t.doesNotThrow(admit('10', '9.999999999999999'));
  t.doesNotThrow(admit(null, '1000000'), 'no budget, no limit');
  const expected = { status: 402, code: 'insufficient_quota', retry: false };
  const headers = ['x-budget-resets-at', '2026-12-01T00:00:00Z'];
  t.match(refusal(admit('10', '10')), { ...expected, message: /your company/, headers });
  t.match(refusal(admit('10', '10', 'key')), {
    ...expected,
    message: /^This key has reached/,
    headers,
  });
});

t.test('a service tier is admitted where the model has a price for it', async (t) => {
  const rates = parseRates([{ tier: 'priority', input: '1', output: '2' }]);
  const tiered = { ...model('tiered'), prices: parsePrices('1', '2', {}, rates) };
  for (const tier of [undefined, null, 'auto', 'default', 'standard', 'standard_only'])
    t.equal(admitTier(model('plain'), tier), null);
  t.equal(admitTier(tiered, 'priority'), 'priority');
  const refused = { name: 'unsupported_parameter', param: 'service_tier' };
  for (const tier of ['Priority', 'flex', '', 0, ['priority']])
    t.throws(() => admitTier(tiered, tier), refused);
  t.throws(() => admitTier(model('plain'), 'priority'), refused);
});
