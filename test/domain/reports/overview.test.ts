import t from 'tap';
import {
  firstHour,
  type GatewayRow,
  type Overview,
  problemsOf,
  wellText,
} from '../../../src/domain/reports/overview.ts';
import { describeChange } from '../../../src/domain/wording/change-text.ts';
import { duration } from '../../../src/domain/wording/start-notice.ts';

const NOTHING = { requests: 0, tokens: 0, cost_eur: '0' };
const QUIET = { refused: 0, recent_requests: 0, recent_upstream_failed: 0 };
const GATEWAY: GatewayRow = {
  id: 'a',
  name: 'pod-1',
  version: '1.0.0',
  started_at: '',
  last_seen_at: '',
  gone: false,
  backlog: 0,
  oldest_seconds: 0,
  lost: 0,
  spool_failing: false,
  limits_alone: false,
  requests_in_flight: 0,
};
const WELL: Overview = {
  at: '2026-11-22T10:30:00Z',
  today: { ...NOTHING, begins: '2026-11-22', before: NOTHING, spenders: [] },
  month: { ...NOTHING, begins: '2026-11-01', before: NOTHING, spenders: [], chat_eur: '0' },
  budgets: { total: 1, used_up: 1, nearest: [] },
  spend: [],
  last_day: { requests: 0, refused: 0, failed: 0, reasons: [] },
  request_days: [],
  refused_now: [],
  untold_usage: [],
  unread_usage: [],
  models: [{ slug: 'm', requests: 1000, failed: 60, upstream_failed: 50, ...QUIET, mean_ms: 10 }],
  set_aside: 0,
  gateways: [
    GATEWAY,
    { ...GATEWAY, id: 'b', backlog: 10, oldest_seconds: 60, requests_in_flight: 9 },
  ],
  dead_deliveries: 0,
  failing_deliveries: 0,
  tenant_role_advice: null,
  has_operator: true,
  changes: [],
};
const texts = (changes: Partial<Overview>) =>
  problemsOf({ ...WELL, ...changes }).map(({ text }) => text);
const gateways = (...rows: Partial<GatewayRow>[]) => ({
  gateways: rows.map((row) => ({ ...GATEWAY, ...row })),
});

t.test(
  'nothing is wrong with records on their way, budgets used up, and few failures',
  async (t) => {
    t.same(texts({}), []);
  },
);

t.test('what is wrong is told in a sentence, with what to do and where', async (t) => {
  t.same(texts(gateways({ lost: 4 })), ['pod-1 lost 4 usage records.']);
  t.same(texts(gateways({ spool_failing: true })), [
    'The disk of pod-1 refuses usage records, or does not give them back.',
  ]);
  t.same(texts(gateways({ backlog: 12, oldest_seconds: 600 })), [
    'pod-1 has 12 usage records not yet in the database, the oldest for 10 minutes.',
  ]);
  const epoch = Date.now() / 1000; // of a spool file that cannot be read
  t.match(texts(gateways({ backlog: 1, oldest_seconds: epoch })), [
    /the oldest for an unknown time\.$/,
  ]);
  t.same(texts({ set_aside: 2 }), ['The database refused 2 usage records, kept aside.']);
  t.same(texts({ gateways: [] }), ['No gateway runs.']);
  t.same(
    texts(gateways({}, { name: 'pod-2', gone: true, spool_failing: true, version: '0.9.0' })),
    ['pod-2 is gone without a stop.'],
  );
  t.same(texts(gateways({}, { gone: true, backlog: 7 })), [
    'pod-1 is gone, and its spool had 7 usage records.',
  ]);
  t.same(texts(gateways({ limits_alone: true })), ['pod-1 counts limits alone.']);
  t.same(texts(gateways({}, { version: '0.9.0' })), [
    'Gateways of different versions run: 0.9.0, 1.0.0.',
  ]);
  const refusing = {
    ...WELL,
    ...gateways({ backlog: 1, oldest_seconds: 61 }, { gone: true }, { gone: true, backlog: 1 }),
  };
  for (const { text, remedy } of problemsOf(refusing))
    t.match(remedy, /[Ii]ts log says/, `${text} The database may refuse what a gateway writes`);
  const models = [
    { slug: 'few', requests: 19, failed: 19, upstream_failed: 19, ...QUIET, mean_ms: null },
    { slug: 'bad', requests: 20, failed: 2, upstream_failed: 2, ...QUIET, mean_ms: 1 },
  ];
  t.same(texts({ models }), ['The upstream failed 2 of 20 requests for bad in the last 24 hours.']);
  t.same(texts({ failing_deliveries: 1 }), ['A delivery of an event fails.']);
  t.same(texts({ failing_deliveries: 3 }), ['3 deliveries of events fail.']);
  t.same(texts({ dead_deliveries: 1 }), ['A delivery of an event was given up.']);
  t.same(texts({ dead_deliveries: 3 }), ['3 deliveries of events were given up.']);
  t.same(problemsOf({ ...WELL, tenant_role_advice: 'grant tollgate_tenant to app' }), [
    {
      text: 'Row-level security between companies is off: the database user may not take the role tollgate_tenant.',
      remedy:
        'Let an administrator of the server run "grant tollgate_tenant to app", then restart a gateway.',
      path: '/#gateways',
    },
  ]);
  const all = problemsOf({
    ...WELL,
    models,
    failing_deliveries: 1,
    dead_deliveries: 1,
    set_aside: 1,
    tenant_role_advice: 'grant tollgate_tenant to app',
    ...gateways({ lost: 1 }, { gone: true }),
  });
  t.same(
    all.map(({ path }) => path),
    [
      '/#gateways',
      '/#gateways',
      '/#gateways',
      '/#gateways',
      '/requests?model=bad&status=upstream_failed&from=2026-11-21T11%3A00%3A00.000Z',
      '/events?state=failing',
      '/events?state=dead',
    ],
    'the worst first',
  );
  t.ok(all.every(({ remedy }) => remedy.endsWith('.')));
});

t.test('an outage is told within minutes, and no longer once it is over', async (t) => {
  const health = { slug: 'm', requests: 2400, refused: 0, failed: 0, mean_ms: 1 };
  const outage = {
    ...health,
    upstream_failed: 20,
    recent_requests: 120,
    recent_upstream_failed: 20,
  };
  t.same(texts({ models: [outage] }), [
    'The upstream failed 20 of 120 requests for m in this hour and the one before.',
  ]);
  t.match(problemsOf({ ...WELL, models: [outage] }), [
    { path: '/requests?model=m&status=upstream_failed&from=2026-11-22T09%3A00%3A00.000Z' },
  ]);
  t.same(texts({ models: [{ ...outage, upstream_failed: 600, recent_upstream_failed: 0 }] }), []);
  const few = { ...outage, upstream_failed: 600, recent_requests: 19, recent_upstream_failed: 0 };
  t.same(texts({ models: [few] }), [
    'The upstream failed 600 of 2400 requests for m in the last 24 hours.',
  ]);
});

t.test('who says that all is well says of what, and how many requests were refused', async (t) => {
  const day = { requests: 359, refused: 345, failed: 0 };
  const reasons = [
    { code: 'upstream_error', requests: 346, companies: 1, most: null },
    { code: 'insufficient_quota', requests: 340, companies: 1, most: null },
    { code: 'not_found', requests: 5, companies: 1, most: null },
  ];
  const well =
    'All is well with gateways, usage records, upstreams and deliveries of events. Refused requests and budgets are not judged here: ';
  for (const [last_day, rest] of [
    [
      { ...day, reasons },
      '345 of 359 requests were refused in the last 24 hours, 340 of them for “Budget reached”.',
    ],
    [{ ...day, reasons: [] }, '345 of 359 requests were refused in the last 24 hours.'],
    [{ ...day, refused: 0, reasons: [] }, 'none of 359 requests was refused in the last 24 hours.'],
    [WELL.last_day, 'no request of the last 24 hours is known.'],
  ] as const)
    t.equal(wellText(last_day), well + rest);
});

t.test(
  'the first hour of sums by the hour is the one after the hour that is not whole',
  async (t) => {
    for (const [now, first] of [
      ['2026-11-22T10:30:00Z', '2026-11-21T11:00:00.000Z'],
      ['2026-11-22T10:00:00Z', '2026-11-21T11:00:00.000Z'],
      ['2026-11-22T10:59:59Z', '2026-11-21T11:00:00.000Z'],
    ] as const)
      t.equal(firstHour(Date.parse(now)), first, now);
  },
);

t.test('durations are told in the unit that fits', async (t) => {
  t.same([61, 119, 120, 7199, 7200, 90_000].map(duration), [
    '61 seconds',
    '119 seconds',
    '2 minutes',
    '120 minutes',
    '2 hours',
    '25 hours',
  ]);
});

t.test('a change is told in a sentence', async (t) => {
  const row = {
    at: new Date(0),
    actor: 'ann@a.example',
    db_role: 'app',
    action: 'update' as const,
  };
  const key = {
    ...row,
    subject: 'api_keys',
    company_name: 'Acme',
    before: { name: 'CI', monthly_budget_eur: null },
  };
  t.same(describeChange({ ...key, after: { name: 'CI', monthly_budget_eur: 5 } }), {
    at: '1970-01-01T00:00:00.000Z',
    who: 'ann@a.example',
    what: 'changed key CI of Acme: monthly budget none → 5',
  });
  t.equal(
    describeChange({ ...key, before: { name: 'CI' }, after: { name: 'CI', digest: 'changed' } })
      .what,
    'changed key CI of Acme: secret changed',
  );
  const long = { name: 'x'.repeat(50), a: [], b: 1, c: 2 };
  t.equal(
    describeChange({
      ...row,
      subject: 'companies',
      company_name: 'B',
      before: { name: 'A', a: ['m', 'n'], b: 0, c: 0 },
      after: long,
    }).what,
    `changed company ${'x'.repeat(50)}: name A → ${'x'.repeat(40)}…, a m,n → none, b 0 → 1 and 1 more`,
  );
  const model = { subject: 'models', company_name: null, before: null, after: { slug: 'm' } };
  t.match(describeChange({ ...row, ...model, action: 'insert', actor: 'cli' }), {
    who: 'the command line',
    what: 'created model m',
  });
  t.match(
    describeChange({
      ...row,
      ...model,
      before: { slug: 'm' },
      after: null,
      action: 'delete',
      actor: 'app',
    }),
    {
      who: 'app by SQL',
      what: 'removed model m',
    },
  );
  for (const [subject, what] of [
    ['model_prices', 'removed price to come m'],
    ['model_cost_prices', 'removed cost price m'],
  ] as const)
    t.equal(
      describeChange({
        ...row,
        ...model,
        subject,
        before: { slug: 'm' },
        after: null,
        action: 'delete',
      }).what,
      what,
    );
  const statement = {
    subject: 'statements',
    company_name: 'Acme',
    before: null,
    after: { number: 1 },
    action: 'insert' as const,
  };
  t.equal(describeChange({ ...row, ...statement }).what, 'created statement 1 of Acme');
  const closed = { name: 'B', closed_at: '2026-11-23T08:18:45.020257+00:00' };
  const ofB = {
    ...row,
    subject: 'companies',
    company_name: 'B',
    before: { name: 'B' },
    after: closed,
  };
  t.equal(describeChange(ofB).what, 'closed company B');
  t.equal(
    describeChange({ ...ofB, before: closed, after: { name: 'B', closed_at: null } }).what,
    'reopened company B',
  );
  const revoked = { name: 'CI', revoked_at: '2026-11-23T08:18:45+00:00' };
  t.equal(
    describeChange({ ...key, before: { name: 'CI' }, after: revoked }).what,
    'revoked key CI of Acme',
  );
  const paused = { name: 'CI', paused_at: '2026-11-23T08:18:45+00:00', pause_reason: 'Leaving' };
  t.equal(
    describeChange({ ...key, before: { name: 'CI' }, after: paused }).what,
    'paused key CI of Acme',
  );
  t.equal(
    describeChange({ ...key, before: paused, after: { name: 'CI' } }).what,
    'resumed key CI of Acme',
  );
  const expires = { name: 'CI', expires_at: '2026-12-31T23:00:00+00:00' };
  const expiry = 'changed key CI of Acme: expires at none → 2026-12-31 23:00 UTC';
  t.equal(describeChange({ ...key, before: { name: 'CI' }, after: expires }).what, expiry);
  const emptied = { ...row, ...model, after: null, action: 'truncate' as const };
  t.equal(describeChange(emptied).what, 'emptied all rows of models');
});
