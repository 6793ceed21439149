import fc from 'fast-check';
import t from 'tap';
import { type Answer, ask } from '../support/client.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { demoUpstream } from '../support/upstream.ts';

/**
 * Random operations of several companies, checked against a model of what each may see: no answer,
 * list or assistant tells a company of another. FUZZ_RUNS sets how many steps, FUZZ_SEED which.
 */

const STEPS = Math.min(fuzzRuns(240), 5000);
const SEED = Number(process.env.FUZZ_SEED ?? 1);
const SLUGS = ['alpha', 'beta', 'gamma'];
const SHARED: Record<string, boolean> = { alpha: true, beta: false }; // whether EU-hosted

interface Tenant {
  readonly id: string;
  readonly key: string;
  readonly assistants: Set<string>;
  /** Own models, EU-hosted or not. */
  readonly own: Map<string, boolean>;
  readonly disabled: Set<string>;
  nonEu: boolean;
  calls: number;
}

const upstream = await demoUpstream(t);
const gateway = await startGateway(t, upstream.url);
const { sql } = gateway;
for (const [slug, eu] of Object.entries(SHARED))
  await gateway.model(slug, { upstream: `internal-shared-${slug}`, eu });
const tenants: Tenant[] = [];
for (let n = 0; n < 5; n++) {
  const id = await gateway.company();
  const key = await gateway.key(id);
  tenants.push({
    id,
    key,
    assistants: new Set(),
    own: new Map(),
    disabled: new Set(),
    nonEu: false,
    calls: 0,
  });
}

/** What a call of a company with this slug gives: the status, and for 200 the internal name. */
function expected(tenant: Tenant, slug: string): { status: number; upstream: string } {
  const own = tenant.own.get(slug);
  const eu = own ?? SHARED[slug];
  if (eu === undefined || tenant.disabled.has(slug)) return { status: 404, upstream: '' };
  if (!eu && !tenant.nonEu) return { status: 403, upstream: '' };
  return {
    status: 200,
    upstream: own === undefined ? `internal-shared-${slug}` : `internal-${tenant.id}-${slug}`,
  };
}
const listed = (tenant: Tenant) => SLUGS.filter((slug) => expected(tenant, slug).status === 200);

/** Changes by plain SQL, as the service's own application would make them. */
const CHANGES: ((tenant: Tenant, slug: string, flag: boolean) => Promise<void>)[] = [
  async (tenant, _slug, flag) => {
    tenant.nonEu = flag;
    await sql`update companies set allow_non_eu_models = ${flag} where id = ${tenant.id}`;
  },
  async (tenant, slug, flag) => {
    if (flag) tenant.disabled.add(slug);
    else tenant.disabled.delete(slug);
    await sql`update companies set disabled_model_slugs = ${[...tenant.disabled]} where id = ${tenant.id}`;
  },
  async (tenant, slug, flag) => {
    await sql`delete from models where company_id = ${tenant.id} and slug = ${slug}`;
    tenant.own.set(slug, flag);
    await gateway.model(slug, {
      upstream: `internal-${tenant.id}-${slug}`,
      eu: flag,
      company: tenant.id,
    });
  },
  async (tenant, slug) => {
    tenant.own.delete(slug);
    await sql`delete from models where company_id = ${tenant.id} and slug = ${slug}`;
  },
  async (tenant, slug) => {
    tenant.assistants.add(
      await gateway.assistant(tenant.id, { model: slug, prompt: `secret of ${tenant.id}` }),
    );
  },
];

const messages = [{ role: 'user', content: 'hello' }];
const visible = ({ headers, text }: Answer) =>
  [...headers]
    .filter(([name]) => !['x-request-id', 'date'].includes(name))
    .map(String)
    .join('\n') + text;

t.test('no company learns of another', async (t) => {
  t.comment(`FUZZ_SEED=${SEED} FUZZ_RUNS=${STEPS}`);
  const steps = fc.sample(
    fc.record({
      who: fc.nat(tenants.length - 1),
      change: fc.nat(CHANGES.length * 3),
      slug: fc.constantFrom(...SLUGS),
      flag: fc.boolean(),
      victim: fc.nat(tenants.length - 1),
      streamed: fc.boolean(),
    }),
    { numRuns: STEPS, seed: SEED },
  );
  for (const { who, change, slug, flag, victim, streamed } of steps) {
    const tenant = tenants[who] as Tenant;
    const { key } = tenant;
    const others = tenants.filter((other) => other !== tenant);
    const changeIt = CHANGES[change];
    if (changeIt !== undefined) {
      await changeIt(tenant, slug, flag);
      await until(
        async () =>
          (await ask(`${gateway.url}/models`, { key })).json.data
            .map(({ id }: { id: string }) => id)
            .join(),
        `the change feed brings the list of models to ${listed(tenant)}`,
        (ids) => ids === listed(tenant).join(),
      );
      continue;
    }
    const { status, upstream: internal } = expected(tenant, slug);
    const before = upstream.received().length;
    const answer = await until(
      () =>
        ask(`${gateway.url}/chat/completions`, {
          key,
          body: { model: slug, messages, stream: streamed },
        }),
      `the change feed brings model ${slug} to status ${status} and ${internal}`,
      (answer) =>
        answer.status === status &&
        (status !== 200 || upstream.received().at(-1)?.body.model === internal),
    );
    if (status === 200) tenant.calls += upstream.received().length - before;
    const foreign = (tenants[victim] as Tenant).assistants.values().next().value;
    const run = (id: string) =>
      ask(`${gateway.url}/assistants/${id}/run`, { key, body: { messages } });
    let about = visible(answer);
    if (foreign !== undefined && tenants[victim] !== tenant) {
      const [theirs, nobodys] = [await run(foreign), await run(crypto.randomUUID())];
      t.equal(theirs.status, 404);
      t.equal(visible(theirs), visible(nobodys), 'a foreign assistant is like none, byte for byte');
      about += visible(theirs);
    }
    const own = [...tenant.assistants].at(-1);
    if (own !== undefined) {
      const sent = upstream.received().length;
      const answer = await run(own);
      about += visible(answer);
      const ran = upstream.received().slice(sent);
      tenant.calls += ran.length;
      t.notOk(
        others.some(({ id }) => JSON.stringify(ran).includes(id)),
        'with nothing of another company',
      );
    }
    t.notOk(
      others.some(({ id }) => about.includes(id)),
      'no answer names another company',
    );
    t.notMatch(about, /internal-/);
  }
  for (const tenant of tenants) {
    const rows = await gateway.ledger(tenant.id, tenant.calls);
    t.equal(rows.length, tenant.calls, 'each has its own calls in its ledger');
  }
});

t.test('a slug of one company looks to the others like a slug that does not exist', async (t) => {
  const [one, other] = tenants as [Tenant, Tenant];
  await gateway.model('private-slug', { upstream: 'internal-private', company: one.id });
  const served = () => ask(`${gateway.url}/models/private-slug`, { key: one.key });
  await until(async () => (await served()).status === 200, 'the model is served to its company');
  const asking = async (model: string) =>
    visible(
      await ask(`${gateway.url}/chat/completions`, { key: other.key, body: { model, messages } }),
    );
  t.equal(
    (await asking('private-slug')).replaceAll('private-slug', 'nobody-slug1'),
    await asking('nobody-slug1'),
  );
  const looking = async (id: string) =>
    visible(await ask(`${gateway.url}/models/${id}`, { key: other.key }));
  t.equal(
    (await looking('private-slug')).replaceAll('private-slug', 'nobody-slug1'),
    await looking('nobody-slug1'),
  );
});
