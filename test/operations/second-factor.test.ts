import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { encryptText } from '../../src/domain/encrypted-text.ts';
import {
  beginSetup,
  confirmSetup,
  type FactorPolicy,
  lackOf,
  pendingSetup,
  renewRecoveryCodes,
  resetFactor,
  type Setup,
  takeCode,
  turnOff,
} from '../../src/operations/second-factor.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { findSession, insertSession } from '../../src/store/users/session.ts';
import { insertUser } from '../../src/store/users/user.ts';
import { testDatabase } from '../support/postgres.ts';
import { base32Bytes, totp } from '../support/totp.ts';

/** The second factor: what is decided about codes, on a real database. Codes are made by a program of its own. */

const { db } = await testDatabase(t);
const KEY = randomBytes(32).toString('base64');
const POLICY: FactorPolicy = { keys: [KEY], required: null };
const NOW = Date.UTC(2026, 10, 26, 12, 0, 10);
const QUARTER = 15 * 60_000;

/** Each in a transaction of its own, as pages do it. */
const change = <T>(work: (sql: Sql) => PromiseLike<T>) => db.transaction(60_000, work);

let people = 0;
async function person(role: 'operator' | 'owner' = 'operator') {
  const email = `person${++people}@example.com`;
  return change(async (sql) => {
    const [{ id: company }] = await sql<
      [{ id: string }]
    >`insert into companies (name) values ('Acme') returning id`;
    const { id } = await insertUser(
      sql,
      { email, role, company_id: role === 'operator' ? null : company },
      'hash',
    );
    return { user_id: id, email, role };
  });
}

type User = Awaited<ReturnType<typeof person>>;

/** A person with a second factor, set up at `NOW`. */
async function withFactor(t: Test, role?: 'operator' | 'owner') {
  const user = await person(role);
  await change((sql) => beginSetup(sql, user, POLICY));
  const setup = await change((sql) => pendingSetup(sql, user, POLICY, 'Tollgate'));
  t.ok(setup);
  const secret = base32Bytes(setup?.secret as string);
  const recovery = await change((sql) => confirmSetup(sql, user, totp(secret, NOW), POLICY, NOW));
  t.equal(recovery?.length, 10);
  return { user, secret, recovery: recovery as readonly string[], uri: setup?.uri as string };
}

async function take(user: User, code: string, at: number, policy = POLICY) {
  const { refusal, notice } = await change((sql) => takeCode(sql, user, code, policy, at));
  return { refusal: refusal?.text ?? null, notice };
}

const factsOf = async ({ user_id }: User) => {
  const [row] = await change(
    (sql) =>
      sql`select second_factor_since is not null as is_on, recovery_codes from users where id = ${user_id}`,
  );
  return row;
};

t.test('codes are those of RFC 6238, for its vectors', async (t) => {
  const rfc = Buffer.from('12345678901234567890');
  const vectors = [
    [59, '94287082'],
    [1111111109, '07081804'],
    [1111111111, '14050471'],
    [1234567890, '89005924'],
    [2000000000, '69279037'],
    [20000000000, '65353130'],
  ] as const;
  const user = await person();
  const secret = 'gezdgnbvgy3tqojqgezdgnbvgy3tqojq'; // the same bytes in base32
  t.same(base32Bytes(secret), rfc);
  await change(async (sql) => {
    const bytes = encryptText(secret, KEY, `second factor ${user.user_id}`);
    await sql`insert into second_factors (user_id, secret) values (${user.user_id}, ${bytes})`;
  });
  for (const [seconds, code] of vectors) {
    t.equal(totp(rfc, seconds * 1000, 8), code, 'the generator of these tests');
    t.equal((await take(user, code.slice(2), seconds * 1000)).refusal, null, `taken at ${seconds}`);
  }
});

t.test('what apps read names service and person, with a random secret of 160 bits', async (t) => {
  const { user, uri, secret } = await withFactor(t);
  const { protocol, host, pathname, searchParams } = new URL(uri);
  t.same(
    [protocol, host, decodeURIComponent(pathname)],
    ['otpauth:', 'totp', `/Tollgate:${user.email}`],
  );
  t.match(Object.fromEntries(searchParams), {
    issuer: 'Tollgate',
    digits: '6',
    period: '30',
    algorithm: 'SHA1',
  });
  t.same(base32Bytes(searchParams.get('secret') as string), secret);
  t.equal(secret.length, 20);
  t.not((await withFactor(t)).uri.split('secret=')[1], uri.split('secret=')[1]);
});

t.test('apps can read the code of a service whose name has colons', async (t) => {
  const { URI } = await import('otpauth');
  for (const [name, issuer] of [
    ['Acme: AI', 'Acme AI'],
    ['AI:Gate', 'AI Gate'],
    ['Gate 10:30 :', 'Gate 10 30'],
    ['Gate & Söhne', 'Gate & Söhne'],
    ['::', ''],
  ] as const) {
    const user = await person();
    await change((sql) => beginSetup(sql, user, POLICY));
    const { uri } = (await change((sql) => pendingSetup(sql, user, POLICY, name))) as Setup;
    t.match(URI.parse(uri), { issuer, label: user.email }, name);
    t.notMatch(new URL(uri).searchParams.get('issuer') ?? '', /:/, name);
  }
});

t.test(
  'a wrong first code sets nothing up, and recovery codes are there only after a right one',
  async (t) => {
    const user = await person();
    t.equal(
      await change((sql) => confirmSetup(sql, user, '123456', POLICY, NOW)),
      null,
      'nothing was begun',
    );
    await change((sql) => beginSetup(sql, user, POLICY));
    const setup = await change((sql) => pendingSetup(sql, user, POLICY, 'Tollgate'));
    const wrong = totp(base32Bytes(setup?.secret as string), NOW + 10 * 60_000);
    t.equal(await change((sql) => confirmSetup(sql, user, wrong, POLICY, NOW)), null);
    t.same(await factsOf(user), { is_on: false, recovery_codes: 0 });
    t.match(await take(user, wrong, NOW), { refusal: /no second factor/ });
    t.equal(
      (await change((sql) => pendingSetup(sql, user, POLICY, 'Tollgate')))?.secret,
      setup?.secret,
      'it waits as it was',
    );
  },
);

t.test('a code is taken once: not again within its window, nor one before it', async (t) => {
  const { user, secret } = await withFactor(t);
  const used = /used already/;
  t.match((await take(user, totp(secret, NOW), NOW)).refusal, used, 'that of the set-up');
  t.equal(
    (await take(user, totp(secret, NOW + 30_000), NOW)).refusal,
    null,
    'the clock of a phone that is ahead',
  );
  t.match((await take(user, totp(secret, NOW + 30_000), NOW + 30_000)).refusal, used);
  t.match((await take(user, totp(secret, NOW), NOW + 30_000)).refusal, used, 'an earlier one');
  t.match(
    (await take(user, totp(secret, NOW + 150_000), NOW + 60_000)).refusal,
    /wrong/,
    'too far ahead',
  );
  t.match(
    (await take(user, totp(secret, NOW + 60_000), NOW + 150_000)).refusal,
    /wrong/,
    'too old',
  );
  t.equal(
    (await take(user, ` ${totp(secret, NOW + 150_000).replace(/^.../, '$& ')} `, NOW + 150_000))
      .refusal,
    null,
  );
  const at = NOW + 300_000;
  const both = await Promise.all([1, 2].map(() => take(user, totp(secret, at), at)));
  t.equal(both.filter(({ refusal }) => refusal === null).length, 1, 'sent twice at once');
});

t.test(
  'five wrong codes close it for a quarter of an hour, then twice as long, up to a day',
  async (t) => {
    const { user, secret, recovery } = await withFactor(t);
    const wrongAt = (at: number) => take(user, totp(secret, at + 3_600_000), at);
    for (let i = 0; i < 4; i++) t.match(await wrongAt(NOW), { refusal: /wrong/, notice: null });
    t.match(await wrongAt(NOW), { refusal: /wrong/, notice: { kind: 'closed', wrong: 5 } });
    t.match(
      (await take(user, totp(secret, NOW + 60_000), NOW + 60_000)).refusal,
      /Too many wrong codes.*14 minutes/,
    );
    const later = NOW + QUARTER + 1000;
    t.match(await wrongAt(later), { notice: { wrong: 6 } });
    t.match(
      (await take(user, totp(secret, later + 29 * 60_000), later + 29 * 60_000)).refusal,
      /Too many/,
    );
    t.equal(
      (await take(user, recovery[0] as string, later)).refusal,
      null,
      'a recovery code is taken meanwhile',
    );
    t.equal(
      (await take(user, totp(secret, later + 60_000), later + 60_000)).refusal,
      null,
      'and opens it again',
    );
    let at = later + 120_000;
    for (let i = 0; i < 40; i++) {
      await wrongAt(at);
      at += 2 * 86_400_000;
    }
    const [{ pause }] = await change(
      (sql) =>
        sql<
          [{ pause: number }]
        >`select extract(epoch from closed_until - to_timestamp(${(at - 2 * 86_400_000) / 1000}))::integer as pause
        from second_factors where user_id = ${user.user_id}`,
    );
    t.equal(pause, 86_400);
  },
);

t.test('guesses at once are counted one after the other', async (t) => {
  const { user, secret } = await withFactor(t);
  const at = NOW + 600_000;
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) => take(user, totp(secret, at + (i + 5) * 60_000), at)),
  );
  t.equal(answers.filter(({ refusal }) => /This code is wrong/.test(refusal ?? '')).length, 5);
  t.equal(answers.filter(({ refusal }) => /Too many/.test(refusal ?? '')).length, 7);
});

t.test(
  'a recovery code works once, however it is typed, and new ones end the former',
  async (t) => {
    const { user, recovery } = await withFactor(t);
    t.match(recovery[0], /^[a-z2-7]{4}(-[a-z2-7]{4}){3}$/);
    t.equal(new Set(recovery).size, 10);
    const typed = (recovery[3] as string).toUpperCase().replaceAll('-', ' ');
    t.match(await take(user, typed, NOW), { refusal: null, notice: { kind: 'recovery', left: 9 } });
    t.match((await take(user, typed, NOW)).refusal, /used already/);
    t.same(await factsOf(user), { is_on: true, recovery_codes: 9 });
    const renewed = await change((sql) => renewRecoveryCodes(sql, user));
    t.match((await take(user, recovery[4] as string, NOW)).refusal, /wrong/);
    t.equal((await take(user, renewed[4] as string, NOW)).refusal, null);
    const both = await Promise.all([1, 2].map(() => take(user, renewed[5] as string, NOW)));
    t.equal(both.filter(({ refusal }) => refusal === null).length, 1, 'sent twice at once');
  },
);

t.test(
  'secrets are stored encrypted, for one person, and codes as digests; the log has neither',
  async (t) => {
    const { user, secret, recovery, uri } = await withFactor(t);
    const other = await withFactor(t);
    const [{ all }] = await change(
      (sql) => sql<
        [{ all: string }]
      >`select concat((select json_agg(f) from second_factors f), (select json_agg(a) from audit_log a),
      (select json_agg(u) from users u)) as all`,
    );
    const base32 = new URL(uri).searchParams.get('secret')?.toLowerCase() as string;
    for (const text of [
      base32,
      secret.toString('hex'),
      Buffer.from(base32).toString('hex'),
      ...recovery,
    ]) {
      t.notMatch(all.toLowerCase(), text);
      t.notMatch(all, text.replaceAll('-', ''));
    }
    await change(
      (
        sql,
      ) => sql`update second_factors set secret = (select secret from second_factors where user_id = ${user.user_id})
      where user_id = ${other.user.user_id}`,
    );
    t.match(
      (await take(other.user, totp(secret, NOW + 60_000), NOW + 60_000)).refusal,
      /cannot be read/,
    );
  },
);

t.test(
  'a key is replaced by putting the new one before it; without a key recovery codes still work',
  async (t) => {
    const { user, secret, recovery } = await withFactor(t);
    const fresh = randomBytes(32).toString('base64');
    const code = (minutes: number) =>
      [totp(secret, NOW + minutes * 60_000), NOW + minutes * 60_000] as const;
    t.match(
      (await take(user, ...code(1), { ...POLICY, keys: [fresh] })).refusal,
      /cannot be read.*recovery code/,
    );
    t.equal((await take(user, ...code(1), { ...POLICY, keys: [fresh, KEY] })).refusal, null);
    t.equal(
      (await take(user, ...code(2), { ...POLICY, keys: [fresh] })).refusal,
      null,
      'it was encrypted anew',
    );
    t.match((await take(user, ...code(3), { ...POLICY, keys: [] })).refusal, /cannot be read/);
    t.equal((await take(user, recovery[0] as string, NOW, { ...POLICY, keys: [] })).refusal, null);
    await t.rejects(
      change((sql) => beginSetup(sql, user, { ...POLICY, keys: [] })),
      { message: /its operator has to set one/ },
    );
  },
);

t.test(
  'another app takes the place of the first one with its own first code, not before',
  async (t) => {
    const { user, secret } = await withFactor(t);
    await change((sql) => beginSetup(sql, user, POLICY));
    const next = base32Bytes(
      (await change((sql) => pendingSetup(sql, user, POLICY, 'Tollgate')))?.secret as string,
    );
    const at = NOW + 60_000;
    t.equal((await take(user, totp(secret, at), at)).refusal, null, 'the first one holds');
    const codes = await change((sql) => confirmSetup(sql, user, totp(next, at), POLICY, at));
    t.equal(codes?.length, 10);
    t.match((await take(user, totp(secret, at + 60_000), at + 60_000)).refusal, /wrong/);
    t.equal((await take(user, totp(next, at + 60_000), at + 60_000)).refusal, null);
  },
);

t.test(
  'what a session lacks follows who must have a second factor, and how it was begun',
  async (t) => {
    const since = new Date(NOW);
    const none = { role: 'owner', second_factor: null, second_factor_since: null } as const;
    const set = { ...none, second_factor_since: since };
    for (const [session, required, lack] of [
      [none, null, null],
      [none, 'operators', null],
      [none, 'all', 'setup'],
      [{ ...none, role: 'operator' }, 'operators', 'setup'],
      [{ ...none, second_factor: 'code' }, 'all', 'setup'], // it was taken away since
      [set, null, 'code'],
      [set, 'all', 'code'],
      [{ ...set, second_factor: 'code' }, 'all', null],
      [{ ...none, second_factor: 'provider' }, 'all', null],
      [{ ...set, second_factor: 'provider' }, 'all', null],
    ] as const) {
      t.equal(lackOf(session, { required }), lack, JSON.stringify({ ...session, required }));
    }
  },
);

t.test(
  'it is turned off by its person unless it is required, and taken away by an operator',
  async (t) => {
    const { user } = await withFactor(t);
    const digest = randomBytes(32);
    await change((sql) =>
      insertSession(sql, { digest, userId: user.user_id, secondFactor: 'code' }),
    );
    await t.rejects(
      change((sql) => turnOff(sql, user, { ...POLICY, required: 'operators' })),
      { message: /cannot be turned off/ },
    );
    await change((sql) => turnOff(sql, user, POLICY));
    t.same(await factsOf(user), { is_on: false, recovery_codes: 0 });
    t.match(await change((sql) => findSession(sql, digest)), { second_factor: null });
    await t.rejects(
      change((sql) => resetFactor(sql, user.user_id)),
      { message: /has no second factor/ },
    );
    const again = await withFactor(t);
    await change((sql) =>
      insertSession(sql, { digest: randomBytes(32), userId: again.user.user_id }),
    );
    await change((sql) => resetFactor(sql, again.user.user_id));
    const [left] = await change(
      (
        sql,
      ) => sql`select (select count(*)::integer from sessions where user_id = ${again.user.user_id}) as sessions,
      (select count(*)::integer from second_factors where user_id = ${again.user.user_id}) as factors`,
    );
    t.same(left, { sessions: 0, factors: 0 });
    const entries = await change(
      (sql) => sql<
        { row: string }[]
      >`select concat(before ->> 'recovery_codes', '>', after ->> 'recovery_codes', ' ',
        before ->> 'second_factor_since' is null, '>', after ->> 'second_factor_since' is null) as row
      from audit_log where subject_id = ${again.user.user_id} and action = 'update' order by id`,
    );
    t.same(
      entries.map(({ row }) => row),
      ['0>10 t>f', '10>0 f>t'],
      'all of it is in the log of changes',
    );
  },
);
