import { randomUUID } from 'node:crypto';
import t from 'tap';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) =>
  run(argv, { env: { DATABASE_URL: url, REQUEST_TRAIL_DAYS: '3' } });
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const AT = Date.parse('2026-11-22T10:15:30.123Z');
const booked = newRequestId(AT);
const [failed] = await addRequests(trailStore(db), [
  {
    at: AT,
    company,
    status: 502,
    code: 'upstream_error',
    model: 'fast',
    outcome: 'upstream_failed',
    ms: 1234,
    addedUs: 87,
    upstreamStatus: 500,
    reason: 'status 500: internal words',
  },
]);
await db.run(60_000, (sql) =>
  addUsage(sql, [
    { company, request: booked, prompt: 10, input: '0.5', at: new Date(AT).toISOString() },
  ]),
);

t.test('a request is told with what happened, what to do and what the upstream said', async (t) => {
  const { code, err, out } = await tollgate('request', (failed as string).toUpperCase());
  t.match({ code, err }, { code: 0, err: '' });
  t.same(out.split('\n'), [
    'The upstream failed to answer, or answered with something that is no answer. Nothing was charged.',
    'What to do: Let the client try again. If it happens often, the reason is in what the upstream said, which operators see here.',
    '',
    '  time                     2026-11-22T10:15:30.123Z',
    '  status                   502',
    '  code                     upstream_error',
    `  company                  Acme (${company})`,
    '  endpoint                 chat.completions',
    '  model                    fast',
    '  outcome                  upstream_failed',
    '  ms duration              1234',
    '  µs added by the gateway  87',
    '  upstream status          500',
    '  upstream said            status 500: internal words',
    '',
  ]);
});

t.test('in JSON', async (t) => {
  t.match((await tollgate('request', failed as string, '--json')).json, {
    request_id: failed,
    company_id: company,
    status: 502,
    result: 'failed',
    in_trail: true,
    upstream_status: 500,
    what: /upstream failed/,
    advice: /try again/,
    api_key_id: null,
    cost_eur: null,
  });
});

t.test('a call that only the ledger knows says so', async (t) => {
  const { out } = await tollgate('request', booked);
  t.match(out, /^The request was answered\.\n/);
  t.match(out, /EUR +0\.005\n/);
  t.match(out, /source +the ledger alone/);
});

t.test(
  'an unknown id says for how long requests are kept; one that is none is refused',
  async (t) => {
    const unknown = await tollgate('request', newRequestId(AT));
    t.match(unknown, { code: 1, out: '', err: /nothing is known of request .*kept for 3 days/ });
    t.match(await tollgate('request', randomUUID()), { code: 1 });
    const late = await tollgate('request', newRequestId(2 ** 48 - 1));
    t.match(late, { code: 1, err: /nothing is known of request/ }, 'an id of the year 10889');
    t.match(await tollgate('request', 'abc'), { code: 64, err: /ID must be an id/ });
    t.match(await tollgate('request'), { code: 64, err: /missing ID/ });
  },
);
