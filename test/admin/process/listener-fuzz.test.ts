import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { cutAt, places } from '../../sse/fuzz.ts';
import { fuzzRuns } from '../../support/fuzz.ts';
import { CHAT } from '../../support/world.ts';
import { Person, signedIn, startOffice } from '../people.ts';

/** Hostile connections to the admin listener, and hostile addresses of pages. FUZZ_RUNS sets how many, FUZZ_SEED which. */
const RUNS = fuzzRuns(240);
const SEED = Number(
  process.env.FUZZ_SEED ?? (process.env.FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff),
);
/** Runs at once, each with a session of its own. */
const LANES = 8;

const office = await startOffice(t, { ADMIN_PROXIES: '1' }); // an allowance for each made-up address
const { host, port, hostname } = new URL(office.adminUrl);
const base = `/companies/${office.customer.company}/assistants`;

const FORM = 'application/x-www-form-urlencoded';
const TYPES = [
  FORM,
  'application/json',
  'text/plain',
  'multipart/form-data; boundary=x',
  '',
  `${FORM}x`,
  '\u00ff',
];
/** Appended to a form that leave it valid. */
const HARMLESS = [
  '',
  '&',
  '&&=&',
  '&%',
  '&a=%zz',
  '&a=%ff%ed%a0%80',
  '&__proto__=1&constructor=2',
  '&name=again',
  '&a=%00',
];
/** And that make it too large, by what they are called in a failure. */
const TOO_MUCH: Readonly<Record<string, string>> = {
  'many fields': '&f=1'.repeat(2500),
  'a long field': `&a=${'x'.repeat(1_100_000)}`,
};
const FRAMINGS = {
  length: (body: string) => `content-length: ${body.length}\r\n\r\n${body}`,
  chunked: (body: string) => {
    const [one, other] = [body.slice(0, 7), body.slice(7)];
    const chunk = (text: string) =>
      text === '' ? '' : `${text.length.toString(16)}\r\n${text}\r\n`;
    return `transfer-encoding: chunked\r\n\r\n${chunk(one)}${chunk(other)}0\r\n\r\n`;
  },
  'a length of more': (body: string) => `content-length: ${body.length + 99}\r\n\r\n${body}`,
  'two lengths': (body: string) =>
    `content-length: ${body.length}\r\ncontent-length: 7\r\n\r\n${body}`,
  'length and chunks': (body: string) =>
    `content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${body}`,
  'chunks cut off': (body: string) =>
    `transfer-encoding: chunked\r\n\r\n${(body.length + 9).toString(16)}\r\n${body}`,
  'chunks without a size': (body: string) => `transfer-encoding: chunked\r\n\r\nxyz\r\n${body}`,
  'no length': (body: string) => `\r\n${body}`,
};
type Framing = keyof typeof FRAMINGS;
const WHOLE: readonly Framing[] = ['length', 'chunked'];

interface FormPlan {
  readonly method: string;
  readonly path: string;
  readonly cookie: 'own' | 'false' | 'none';
  readonly token: 'own' | 'false' | 'none';
  readonly origin: string | null;
  readonly type: string;
  readonly more: string;
  readonly framing: Framing;
}

const sound: FormPlan = {
  method: 'POST',
  path: `${base}/new`,
  cookie: 'own',
  token: 'own',
  origin: `http://${host}`,
  type: FORM,
  more: '',
  framing: 'length',
};
const soundForm = fc.record({
  more: fc.constantFrom(...HARMLESS),
  framing: fc.constantFrom(...WHOLE),
});
const FLAWS: fc.Arbitrary<Partial<FormPlan>>[] = [
  fc.record({ method: fc.constantFrom('PUT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'BREW') }),
  fc.record({
    path: fc.constantFrom(
      '/sign-in',
      '/companies',
      '/no/where',
      '*',
      'http://x/',
      '/%',
      '/livez',
      `${base}/%00`,
    ),
  }),
  fc.record({ cookie: fc.constantFrom('false', 'none') }),
  fc.record({ token: fc.constantFrom('false', 'none') }),
  fc.record({ origin: fc.constantFrom('http://elsewhere.example', 'null', 'no url', null) }),
  fc.record({ type: fc.constantFrom(...TYPES.slice(1)) }),
  fc.record({ more: fc.constantFrom(...Object.keys(TOO_MUCH)) }),
  fc.record({
    framing: fc.constantFrom(
      ...(Object.keys(FRAMINGS) as Framing[]).filter((framing) => !WHOLE.includes(framing)),
    ),
  }),
];
const flawedForm = fc.tuple(
  soundForm,
  fc.oneof(...FLAWS),
  fc.option(fc.oneof(...FLAWS), { freq: 2 }),
);

const connections = fc.record({
  forms: fc.array(
    fc.oneof(
      { weight: 2, arbitrary: soundForm.map((plan) => ({ isSound: true, ...sound, ...plan })) },
      {
        weight: 3,
        arbitrary: flawedForm.map(([plan, one, other]) => ({
          isSound: false,
          ...sound,
          ...plan,
          ...one,
          ...other,
        })),
      },
    ),
    { minLength: 1, maxLength: 4 },
  ),
  cuts: places,
  ending: fc.constantFrom('read', 'read', 'reset', 'half', 'silence'),
  /** How much of the bytes is sent unless all is read, in thousandths. */
  share: fc.nat(1000),
});

type HostileConnection = typeof connections extends fc.Arbitrary<infer C> ? C : never;

interface Lane {
  readonly cookie: string;
  readonly csrf: string;
}

async function newLane(): Promise<Lane> {
  const person = await signedIn(office, 'administrator');
  const cookie = [...person.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  return { cookie, csrf: await person.csrf() };
}

/** The bytes of a form that creates an assistant of this name. */
function written(plan: FormPlan, lane: Lane, name: string, address: string): string {
  const token = plan.token === 'own' ? lane.csrf : 'x'.repeat(lane.csrf.length);
  const csrf = plan.token === 'none' ? '' : `&csrf=${token}`;
  const body = `name=${name}&system_prompt=x&visibility=company${csrf}${TOO_MUCH[plan.more] ?? plan.more}`;
  const cookie = plan.cookie === 'own' ? lane.cookie : `tollgate=${'A'.repeat(43)}`;
  const lines = [
    `${plan.method} ${plan.path} HTTP/1.1`,
    `host: ${host}`,
    `x-forwarded-for: ${address}`,
    ...(plan.cookie === 'none' ? [] : [`cookie: ${cookie}`]),
    ...(plan.origin === null ? [] : [`origin: ${plan.origin}`]),
    ...(plan.type === '' ? [] : [`content-type: ${plan.type}`]),
  ];
  return `${lines.join('\r\n')}\r\n${FRAMINGS[plan.framing](body)}`;
}

/**
 * Sends pieces, and leaves in one of four ways: `read` when so many answers began to arrive, the
 * connection is closed, or nothing came for a while.
 */
async function converse(pieces: readonly Buffer[], ending: string, answers = 0, quietMs = 300) {
  const socket = connect(Number(port), hostname).setTimeout(quietMs);
  const heard = { statuses: [] as number[], isReset: false };
  const over = new Promise((resolve) => socket.on('close', resolve));
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    heard.statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
    if (ending === 'read' && heard.statuses.length >= answers) socket.destroy();
  });
  socket.on('error', () => {
    heard.isReset = true;
  });
  socket.on('timeout', () => socket.destroy());
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece);
    await sleep(2); // paced: each piece is to arrive by itself
  }
  if (ending === 'half') socket.end();
  if (ending === 'reset') socket.resetAndDestroy();
  await over;
  return heard;
}

/** Statuses of answers: none says that the pages failed. */
const ALLOWED = [200, 204, 303, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 503];

/** What became of the forms, by name. No status: no answer was read. `isSound` is null when chance decided. */
const outcomes = new Map<
  string,
  { readonly isSound: boolean | null; readonly status: number | null }
>();
let names = 0;

async function attack(
  lane: Lane,
  { forms, cuts, ending, share }: HostileConnection,
): Promise<void> {
  const named = forms.map((plan) => ({ plan, name: `fuzz-${++names}` }));
  const address = `10.${(names >> 16) & 255}.${(names >> 8) & 255}.${names & 255}`;
  const bytes = Buffer.from(
    named.map(({ plan, name }) => written(plan, lane, name, address)).join(''),
    'latin1',
  );
  let statuses: readonly number[] = [];
  if (ending === 'read') {
    const isWhole = forms.every(({ framing }) => WHOLE.includes(framing));
    const heard = await converse(cutAt(bytes, cuts), ending, forms.length, isWhole ? 10_000 : 700);
    statuses = heard.statuses;
    // a reset may take the answer to a body that is not read to its end
    if (statuses.length === 0 && isWhole && !heard.isReset) throw new Error('no answer');
    if (statuses.some((status) => !ALLOWED.includes(status))) throw new Error(`${statuses}`);
  } else {
    await converse(
      cutAt(bytes.subarray(0, Math.ceil((bytes.length * share) / 1000)), cuts),
      ending,
    );
  }
  // node:http refuses what it cannot read at once: the answers to forms before that are lost
  const isReadable = forms.every(
    ({ method, framing }) => method !== 'BREW' && WHOLE.includes(framing),
  );
  for (const [k, { plan, name }] of named.entries()) {
    const isFilled = plan.framing === 'a length of more' && k < named.length - 1; // by the beginning of the next form
    const status = statuses[k] ?? null;
    const isKnown = status !== null && (status !== 400 || isReadable);
    outcomes.set(name, {
      isSound: isFilled ? null : plan.isSound,
      status: isKnown ? status : null,
    });
    if (!WHOLE.includes(plan.framing)) statuses = []; // what follows may be read as its body
  }
}

t.test('the body of a GET or HEAD is not taken for a part of the next request', async (t) => {
  for (const method of ['GET', 'HEAD']) {
    const odd = `${method} /sign-in HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 20\r\n\r\n${'x'.repeat(20)}`;
    const plain = `GET /sign-in HTTP/1.1\r\nhost: ${host}\r\n\r\n`;
    const { statuses } = await converse(
      [Buffer.from(odd), Buffer.from(plain), Buffer.from(plain)],
      'read',
      3,
      60_000,
    );
    t.same(statuses, [200, 200, 200], method);
  }
});

t.test(
  'the pages take every sound form once and no other, and clients of the API notice nothing',
  async (t) => {
    t.comment(`FUZZ_SEED=${SEED} FUZZ_RUNS=${RUNS}`);
    let over = false;
    let answered = 0;
    const client = (async () => {
      for (; !over; answered++) {
        const { status, json } = await office.customer.chat();
        if (status !== 200 || json.model !== CHAT || json.usage.prompt_tokens < 1)
          throw new Error(`the API: ${status}`);
        await sleep(5); // so that a long run leaves room in the ledger
      }
    })();
    client.catch(() => {}); // awaited below
    const lanes: Lane[] = [];
    while (lanes.length < LANES) lanes.push(await newLane()); // one by one: attempts to sign in are limited
    const results = await Promise.all(
      lanes.map((lane, n) =>
        fc.check(
          fc.asyncProperty(connections, (connection) => attack(lane, connection)),
          { numRuns: Math.ceil(RUNS / LANES), seed: SEED + n, endOnFailure: true },
        ),
      ),
    );
    over = true;
    for (const { failed, counterexample, errorInstance } of results) {
      t.notOk(failed, 'every answer is one of the pages', {
        counterexample,
        error: String(errorInstance),
      });
    }
    await client;
    t.ok(answered > 10, `an API client beside them had ${answered} right answers`);
    t.equal(
      (await office.ledger(office.customer.company, answered)).length,
      answered,
      'and they are booked once each',
    );

    const person = await signedIn(office, 'owner');
    const { status, headers } = await person.post(`${base}/new`, {
      name: 'after',
      system_prompt: 'x',
      visibility: 'company',
    });
    t.same(
      [status, headers.get('location')],
      [303, `${base}?done=created`],
      'the pages work afterwards',
    );
    t.equal((await new Person(office.adminUrl).get('/sign-in')).status, 200, 'for strangers too');
    t.equal((await fetch(`${office.adminUrl}/readyz`)).status, 200, 'the gateway is ready');

    const rows = await office.sql<{ name: string; count: number }[]>`
    select name, count(*)::integer from assistants where name like 'fuzz-%' group by name`;
    const created = new Map(rows.map(({ name, count }) => [name, count]));
    let taken = 0;
    for (const [name, { isSound, status }] of outcomes) {
      const count = created.get(name) ?? 0;
      const expected =
        isSound === false
          ? [0]
          : isSound === null || status === null
            ? [0, 1]
            : [status === 303 ? 1 : 0];
      if (!expected.includes(count))
        t.fail(`${name}: sound ${isSound}, status ${status}, taken ${count} times`);
      if (isSound === true && ![null, 303, 503].includes(status))
        t.fail(`${name} was sound and got ${status}`);
      if (isSound === true && status === 303) taken += 1;
    }
    t.ok(taken > RUNS / 8, `${taken} of ${outcomes.size} forms were sound, and taken`);
    t.same(
      office.logged.filter((line) => JSON.parse(line).level >= 50),
      [],
      'nothing is logged as an error',
    );
  },
);

/** Texts of each form at the edges of what can be stored or computed, and beside it. */
const EDGES = {
  id: ['ffffffff-ffff-7fff-bfff-ffffffffffff', '00000000-0000-0000-0000-000000000000'],
  instant: [
    '1000-01-01T00:00:00+23:59',
    '2999-12-31T23:59:59-23:59',
    '1000-01-01',
    '2999-12-31T23:59',
  ],
  day: ['1000-01-01', '2999-12-31', '0000-01-01', '+010000-01-01'],
  month: ['1000-01', '2999-12', '0000-01'],
  number: ['999999999999999', '9223372036854775808', '1e400', '٣'],
  text: ['\0', '\ufffd', '%', '__proto__', 'x'.repeat(3000)],
};
const OF_REQUESTS = {
  before: 'id',
  key: 'id',
  from: 'instant',
  to: 'instant',
  model: 'text',
  status: 'text',
} as const;
const OF_USAGE = {
  from: 'day',
  to: 'day',
  month: 'month',
  key: 'id',
  cost_center: 'text',
} as const;
const ASKED: Readonly<Record<string, Readonly<Record<string, keyof typeof EDGES>>>> = {
  '/requests': OF_REQUESTS,
  ':company/requests': OF_REQUESTS,
  ':company/usage': OF_USAGE,
  '/audit': { from: 'number', q: 'text' },
  '/events': { before: 'id', company: 'id' },
  '/tokens': { before: 'id' },
  '/margin': { month: 'month' },
  ':company/statements/month': { month: 'month' },
  '/companies': { q: 'text', page: 'number', sort: 'text' },
  ':company/keys': { q: 'text', sort: 'text' },
};

t.test('whatever an address asks for, its page does not fail', async (t) => {
  const operator = await signedIn(office, 'operator');
  for (const [path, query] of Object.entries(ASKED)) {
    const page = path.replace(':company', `/companies/${office.customer.company}`);
    const asked = Object.entries(query).flatMap(([name, form]) =>
      EDGES[form].map((edge) => `${page}?${name}=${encodeURIComponent(edge)}`),
    );
    for (const address of [...asked, ...EDGES.id.map((id) => `${page}/${id}`)]) {
      const { status } = await operator.get(address);
      if (![200, 303, 404, 422].includes(status)) t.fail(`${status} for ${address.slice(0, 200)}`);
    }
  }
  t.pass('all answered');
});
