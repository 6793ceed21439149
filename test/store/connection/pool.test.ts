import { createHash } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { DatabaseRefused, DatabaseUnavailable } from '../../../src/store/connection/errors.ts';
import { LargeParameter } from '../../../src/store/connection/large-parameter.ts';
import { type Database, openDatabase } from '../../../src/store/connection/pool.ts';
import { freeze, holds, inDatabase, privateServer, testDatabase } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';
import { until } from '../../support/until.ts';

const MS = 60_000;
const { url, db } = await testDatabase(t);

t.test('values keep their meaning on the way', async (t) => {
  const odd = ['plain', '', 'a,b', '{"q"}', 'back\\slash', 'NULL', ' ümlaut\n', '\u{1f600}'];
  const [row] = await db.run(
    MS,
    (
      sql,
    ) => sql`select 12::int8 as small, 9223372036854775807::int8 as large, count(*) as n, 1.50::numeric as money,
      '2026-11-01'::date as day, ${odd}::text[] as odd, ${[]}::text[] as none, array[null, 'x'] as some,
      ${[1, 2]}::int8[] as ints, array[true, false] as flags, array['\\x00ff'::bytea] as bytes,
      ${['1.5', '0.000000000000001']}::numeric[] as prices, ${'2026-11-01'}::date as given,
      ${new Date(0)}::timestamptz as at, array['2026-11-01'::date] as days`,
  );
  t.same(row, {
    small: 12,
    large: '9223372036854775807',
    n: 1,
    money: '1.50',
    day: '2026-11-01',
    odd,
    none: [],
    some: [null, 'x'],
    ints: [1, 2],
    flags: [true, false],
    bytes: [Buffer.from([0, 255])],
    prices: ['1.5', '0.000000000000001'],
    given: '2026-11-01',
    at: new Date(0),
    days: ['2026-11-01'],
  });
});

t.test(
  'instants that no Date can hold, as plain SQL may say, are told as the first or the last that one can',
  async (t) => {
    const [row] = await db.run(
      MS,
      (
        sql,
      ) => sql`select 'infinity'::timestamptz as never, '-infinity'::timestamptz as always, '294276-12-31'::timestamptz as late,
      array['infinity'::timestamptz, '2026-11-01T00:00Z'] as several`,
    );
    const [first, last] = [new Date(-8.64e15), new Date(8.64e15)];
    const several = [last, new Date('2026-11-01')];
    t.same(row, { never: last, always: first, late: last, several });
  },
);

t.test(
  'times, bytes and backslashes keep their meaning in a database that is set to other formats',
  async (t) => {
    const setStyle = (what: string) =>
      db.run(MS, (sql) =>
        sql.unsafe(
          `do $$ begin execute format('alter database %I ${what}', current_database()); end $$`,
        ),
      );
    await setStyle(`set datestyle = ''SQL, DMY''`);
    await setStyle('set bytea_output = escape');
    await setStyle('set standard_conforming_strings = off');
    t.teardown(async () => {
      await setStyle('reset datestyle');
      await setStyle('reset bytea_output');
      await setStyle('reset standard_conforming_strings');
    });
    const other = openDatabase({ url });
    t.teardown(() => other.close());
    const [row] = await other.run(
      MS,
      (sql) =>
        sql`select '2026-11-05T10:00:00Z'::timestamptz as at, '2026-11-05'::date::text as day, 'abc' ~ 'a\\.c' as loose`,
    );
    t.same(row, { at: new Date('2026-11-05T10:00:00Z'), day: '2026-11-05', loose: false });
    const every = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    for (const bytes of [every, Buffer.from('\\x41'), Buffer.from('\\101'), Buffer.alloc(0)]) {
      const [told] = await other.run(
        MS,
        (sql) =>
          sql`select ${bytes}::bytea as one, array[${bytes}::bytea] as several, encode(${bytes}::bytea, 'hex') as hex`,
      );
      t.same(told, { one: bytes, several: [bytes], hex: bytes.toString('hex') });
    }
  },
);

t.test(
  'a transaction has the deadline that it is given, and no limit of the server for its statements',
  async (t) => {
    const limited = openDatabase({ url: `${url}&statement_timeout=5000` });
    t.teardown(() => limited.close());
    const [row] = await limited.transaction(
      MS,
      (
        sql,
      ) => sql`select current_setting('statement_timeout') as statement, setting as session from pg_settings
      where name = 'idle_in_transaction_session_timeout'`,
    );
    t.same(row, { statement: '0', session: `${MS}` });
  },
);

t.test('the session is named tollgate and has no more connections than asked for', async (t) => {
  const few = openDatabase({ url: `${url}&application_name=few` });
  t.teardown(() => few.close());
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      few.run(MS, async (sql) => (await sql`select ${i}::int as i`)[0]?.i),
    ),
  );
  t.same(answers, [...answers.keys()]);
  const rows = await db.run(
    MS,
    (sql) => sql`select application_name as name, count(*) from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' group by 1 order by 1`,
  );
  t.same(
    [...rows],
    [
      { name: 'few', count: 2 },
      { name: 'tollgate', count: 1 },
    ],
  );
});

t.test('what exceeds its deadline is refused, and ended on the server', async (t) => {
  const one = openDatabase({ url, maxConnections: 1 });
  t.teardown(() => one.close());
  const slow = one.run(200, (sql) => sql`select pg_sleep(60), 'slow'`);
  const queued = one.run(100, (sql) => sql`select 1`);
  await t.rejects(
    queued,
    { code: 'DEADLINE', unavailable: true },
    'waiting for a connection counts',
  );
  await t.rejects(slow, {
    code: 'DEADLINE',
    message: 'database unavailable: no answer within 200 ms',
  });
  const [row] = await one.run(MS, (sql) => sql`select 2 as two`);
  t.equal(row?.two, 2, 'the next query has a connection');
  const cancelled = `not exists (select from pg_stat_activity
    where state = 'active' and query like '%slow%' and pid <> pg_backend_pid())`;
  await until(() => holds(db, cancelled), 'the statement is cancelled');
});

t.test('a large text', async (t) => {
  const one = openDatabase({ url, maxConnections: 1, isFast: true });
  t.teardown(() => one.close());
  for (const database of [one, db]) {
    for (const size of [0, 1, 1024, 3_000_000]) {
      const text = Buffer.alloc(size, `${size} characters `);
      const [row] = await database.run(
        MS,
        (sql) =>
          sql`select ${'before'}::text as before, md5(${sql.large(text)}::text) as md5, ${'behind'}::text as behind`,
      );
      const md5 = createHash('md5').update(text).digest('hex');
      t.same({ ...row }, { before: 'before', md5, behind: 'behind' }, `${size} bytes`);
    }
  }
  const refused = one.run(
    MS,
    (sql) => sql`select ${sql.large(Buffer.from('lost'))}::text from nowhere`,
  );
  await t.rejects(refused, { code: '42P01' });
  const [row] = await one.run(MS, (sql) => sql`select ${'kept'}::text as text`);
  t.equal(row?.text, 'kept', 'nothing of it reaches another statement');
});

t.test('a driver that sends parameters in another way is noticed', async (t) => {
  const parameter = new LargeParameter();
  const socket = new Socket();
  parameter.attach(socket);
  const token = parameter.set(Buffer.from('text'));
  for (const message of [`Q    ${token}`, 'B    other']) {
    t.throws(() => socket.write(Buffer.from(message)), {
      message: 'the driver sends parameters in another way',
    });
  }
});

t.test('a statement that waits for a lock past its deadline never takes effect', async (t) => {
  await db.run(MS, (sql) => sql`create table slots (n int)`);
  await db.transaction(MS, async (sql) => {
    await sql`lock table slots`;
    await t.rejects(
      db.run(200, (other) => other`insert into slots values (1)`),
      { code: 'DEADLINE' },
    );
    const here: Pick<Database, 'run'> = { run: async (_ms, work) => work(sql) };
    const none = `not exists (select from pg_locks where not granted and relation = 'slots'::regclass)`;
    await until(() => holds(here, none), 'the statement stops waiting');
  });
  t.same([...(await db.run(MS, (sql) => sql`select n from slots`))], []);
});

t.test('a frozen server', async (t) => {
  const server = await privateServer(t);
  const pipes = () =>
    process.getActiveResourcesInfo().filter((name) => name.startsWith('Pipe')).length;
  const before = pipes();
  const db = openDatabase({ url: server.url });
  t.teardown(() => db.close());
  await db.run(MS, (sql) => sql`select 1`);
  const thaw = freeze(server);
  try {
    for (let round = 0; round < 3; round++) {
      const asked = Array.from({ length: 3 }, () => db.run(150, (sql) => sql`select 1`));
      const answers = await Promise.allSettled(asked);
      for (const answer of answers)
        t.match(answer, { status: 'rejected', reason: { code: 'DEADLINE' } });
    }
    await until(
      () => pipes() === before,
      'no connection stays behind: cancel requests wait a second for an answer',
    );
  } finally {
    thaw();
  }
  const [row] = await db.run(MS, (sql) => sql`select 1 as one`);
  t.equal(row?.one, 1, 'works again as soon as the server does');
});

t.test('a connection that goes nowhere', async (t) => {
  const proxy = await startProxy(t, url);
  const db = openDatabase({ url: proxy.url, maxConnections: 1 });
  t.teardown(() => db.close());
  await db.run(MS, (sql) => sql`select 1`);
  proxy.freeze();
  await t.rejects(
    db.run(200, (sql) => sql`select 1`),
    { code: 'DEADLINE' },
    'an established one',
  );
  await t.rejects(
    db.run(200, (sql) => sql`select 1`),
    { code: 'DEADLINE' },
    'a new one',
  );
  await proxy.restore();
  await t.resolves(db.run(MS, (sql) => sql`select 1`));
  await proxy.cut();
  await t.rejects(
    db.run(MS, (sql) => sql`select 1`),
    { message: /^database unavailable/ },
    'broken or refused, at once',
  );
  await t.rejects(
    db.run(MS, (sql) => sql`select 1`),
    { code: 'ECONNREFUSED' },
  );
  await proxy.restore();
  await t.resolves(db.run(MS, (sql) => sql`select 1`));
});

t.test('connections the server ends', async (t) => {
  const victim = openDatabase({ url: `${url}&application_name=victim`, maxConnections: 1 });
  t.teardown(() => victim.close());
  const terminate = () =>
    db.run(
      MS,
      (sql) =>
        sql`select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'victim'`,
    );

  await victim.run(MS, (sql) => sql`select 1`);
  await terminate();
  // on a busy machine the end of the connection may be read after the next query was sent
  await until(
    () =>
      victim
        .run(MS, (sql) => sql`select 1`)
        .then(
          () => true,
          () => false,
        ),
    'an idle one is replaced',
  );

  const running = victim.run(MS, (sql) => sql`select pg_sleep(30)`);
  await until(
    () => holds(db, `exists (select from pg_stat_activity where wait_event = 'PgSleep')`),
    'it runs',
  );
  const rejected = t.rejects(
    running,
    { message: /^database unavailable/ },
    'a running one is unavailable',
  );
  await terminate();
  await rejected;
  await t.resolves(victim.run(MS, (sql) => sql`select 1`));
});

t.test('transactions', async (t) => {
  await db.run(MS, (sql) => sql`create table steps (name text unique)`);
  const names = async () =>
    (await db.run(MS, (sql) => sql`select name from steps order by 1`)).map((row) => row.name);

  t.equal(
    await db.transaction(MS, async (sql) => (await sql`insert into steps values ('one')`).count),
    1,
  );
  t.same(await names(), ['one'], 'resolved: committed');

  const mind = new Error('no');
  const failing = db.transaction(MS, async (sql) => {
    await sql`insert into steps values ('two')`;
    throw mind;
  });
  t.equal(await failing.catch((error) => error), mind, 'the error of the work passes through');
  t.same(await names(), ['one'], 'rejected: rolled back');

  const hiding = db.transaction(MS, async (sql) => {
    await sql`insert into steps values ('three')`;
    await sql`insert into steps values ('one')`.catch(() => {});
  });
  await t.rejects(hiding, { message: /kept a failed statement to itself/ });
  t.same(await names(), ['one'], 'a hidden failure does not pass for a commit');

  const victim = openDatabase({ url: `${url}&application_name=victim`, maxConnections: 1 });
  t.teardown(() => victim.close());
  const lost = victim.transaction(MS, async (sql) => {
    await sql`insert into steps values ('four')`;
    await db.run(
      MS,
      (other) =>
        other`select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'victim'`,
    );
    await sql`select 1`.catch(() => {});
    await new Promise(setImmediate); // the driver could connect anew
    await sql`insert into steps values ('five')`.catch(() => {});
    await sql`insert into steps values ('six')`;
  });
  await t.rejects(lost, { message: /^database unavailable/ });
  t.same(await names(), ['one'], 'after a loss nothing runs outside the transaction');

  const late = Promise.withResolvers<unknown>();
  const gone = `not exists (select from pg_stat_activity where application_name = 'victim')`;
  await victim.run(MS, (sql) => sql`select 1`); // connected, so that the deadline passes within the work
  const overdue = victim.transaction(1000, async (sql) => {
    await sql`insert into steps values ('seven')`;
    await until(() => holds(db, gone), 'the connection is ended at the deadline');
    await sql`insert into steps values ('eight')`.catch((error) => error).then(late.resolve);
  });
  await t.rejects(overdue, { code: 'DEADLINE' });
  await late.promise;
  t.same(await names(), ['one'], 'a deadline rolls back');
});

t.test(
  'work that goes on after its deadline changes nothing, even if the server cannot be reached',
  async (t) => {
    await db.run(MS, (sql) => sql`create table entries (name text)`);
    const proxy = await startProxy(t, url);
    const slow = openDatabase({ url: `${proxy.url}?application_name=slow`, maxConnections: 1 });
    t.teardown(() => slow.close());
    for (const use of ['run', 'transaction'] as const) {
      await proxy.restore();
      await slow.run(MS, (sql) => sql`select 1`);
      proxy.freezeNew(); // a request to cancel gets no answer
      const next = Promise.withResolvers<unknown>();
      const overdue = slow[use](100, async (sql) => {
        if (use === 'transaction') await sql`insert into entries values ('in time')`;
        await sql`select pg_sleep(0.2)`;
        if (use === 'run')
          await sql`insert into entries values ('late')`.catch((error) => error).then(next.resolve);
      });
      await t.rejects(overdue, { code: 'DEADLINE' });
      if (use === 'run')
        t.match(await next.promise, { code: 'CONNECTION_ENDED' }, 'a statement is refused');
      const gone = `not exists (select from pg_stat_activity where application_name = 'slow')`;
      await until(() => holds(db, gone), 'the connection is ended');
      t.same(
        [...(await db.run(MS, (sql) => sql`select name from entries`))],
        [],
        `${use}: nothing took effect`,
      );
    }
  },
);

t.test('errors say whether trying again can help', async (t) => {
  await db.run(
    MS,
    (sql) =>
      sql`create table pairs (name text constraint a_name check (name <> ''), value text unique)`,
  );
  const refused = async (work: Parameters<Database['run']>[1]) =>
    (await db.run(MS, work).catch((error) => error)) as unknown;

  t.match(await refused((sql) => sql`insert into pairs values ('', 'confidential')`), {
    constructor: DatabaseRefused,
    unavailable: false,
    code: '23514',
    constraint: 'a_name',
    message: 'database refused: new row for relation "pairs" violates check constraint "a_name"',
  });
  await db.run(MS, (sql) => sql`insert into pairs values ('a', 'confidential')`);
  const duplicate = (await refused(
    (sql) => sql`insert into pairs values ('b', 'confidential')`,
  )) as Error;
  t.match(duplicate, { code: '23505' });
  t.notMatch(
    `${JSON.stringify(duplicate)}${duplicate.stack}${duplicate.cause}`,
    /confidential/,
    'without the values',
  );
  t.match(await refused((sql) => sql`select nothing`), { code: '42703', unavailable: false });
  t.match(await refused((sql) => sql`select ${'x'}::uuid`), { code: '22P02', unavailable: false });

  const readOnly = db.run(MS, (sql) =>
    sql.unsafe(`begin read only; insert into pairs values ('c', 'd')`),
  );
  await t.rejects(readOnly, { constructor: DatabaseUnavailable, code: '25006', unavailable: true });
  for (const code of ['57P03', '53300', '40001', '40P01', '08006', '55P03']) {
    const raised = db.run(MS, (sql) =>
      sql.unsafe(`do $$ begin raise exception 'x' using errcode = '${code}'; end $$`),
    );
    await t.rejects(raised, { unavailable: true, code }, code);
  }
  await t.rejects(
    db.run(MS, () => Promise.reject(new RangeError('mine'))),
    new RangeError('mine'),
    'errors of the work are left alone',
  );
  const disk = Object.assign(new Error('no space left'), { code: 'ENOSPC', syscall: 'write' });
  t.equal(
    await db.run(MS, () => Promise.reject(disk)).catch((error) => error),
    disk,
    'though they look like ours',
  );
  await t.rejects(
    db.run(MS, (sql) => sql`select ${undefined as unknown as string}`),
    { code: 'UNDEFINED_VALUE' },
    'and so are mistakes in using it',
  );
});

t.test('several hosts', async (t) => {
  const [one, two] = [await startProxy(t, url), await startProxy(t, url)];
  const [a, b] = [one, two].map((proxy) => new URL(proxy.url).host);
  const both = (rest = '') => new URL(one.url).href.replace(a as string, `${a},${b}`) + rest;
  const db = openDatabase({ url: both('?target_session_attrs=read-write'), maxConnections: 1 });
  t.teardown(() => db.close());
  await t.resolves(db.run(MS, (sql) => sql`select 1`));
  await one.cut();
  await db.run(MS, (sql) => sql`select 1`).catch(() => {}); // the connection that breaks
  await t.resolves(
    db.run(MS, (sql) => sql`select 1`),
    'the second host takes over',
  );
  await two.cut();
  await db.run(MS, (sql) => sql`select 1`).catch(() => {});
  await t.rejects(
    db.run(MS, (sql) => sql`select 1`),
    { code: 'ECONNREFUSED' },
    'both are away: at once, not for ever',
  );
  await one.restore();
  await t.resolves(
    db.run(MS, (sql) => sql`select 1`),
    'the first host takes over again',
  );

  one.freeze();
  await two.restore();
  await db.run(300, (sql) => sql`select 1`).catch(() => {});
  await t.resolves(
    db.run(MS, (sql) => sql`select 1`),
    'a silent host is passed over within the deadline',
  );

  await one.restore();
  const readOnly = '&options=-cdefault_transaction_read_only%3Don';
  for (const [role, fits] of [
    ['standby', false],
    ['prefer-standby', true],
    ['read-only', false],
    ['read-write', true],
    [`read-only${readOnly}`, true],
    [`read-write${readOnly}`, false],
    [`primary${readOnly}`, true],
  ] as const) {
    const chosen = openDatabase({ url: both(`?target_session_attrs=${role}`) });
    t.teardown(() => chosen.close());
    const asked = chosen.run(MS, (sql) => sql`select 1`);
    if (fits) await t.resolves(asked, role);
    else await t.rejects(asked, { code: 'WRONG_ROLE', unavailable: true }, role);
  }
});

t.test('the file of an address is read for each connection', async (t) => {
  const urlFile = join(t.testdir({}), 'url');
  const named = (name: string) => writeFileSync(urlFile, `${url}&application_name=${name}\n`);
  named('first');
  const db = openDatabase({ url, urlFile });
  t.teardown(() => db.close());
  const nameOf = async () => {
    const [row] = await db.run(
      MS,
      (sql) => sql`select current_setting('application_name') as name`,
    );
    await db.run(MS, (sql) => sql`select pg_terminate_backend(pg_backend_pid())`).catch(() => {});
    return row?.name;
  };
  t.equal(await nameOf(), 'first');
  named('second');
  t.equal(await nameOf(), 'second');
  rmSync(urlFile);
  t.equal(await nameOf(), 'second', 'while the file is being replaced');
  writeFileSync(urlFile, '');
  t.equal(await nameOf(), 'second', 'or is empty');
});

t.test('a server that does not answer is given up after connect_timeout', async (t) => {
  const silent = await startProxy(t, url);
  silent.freeze();
  const db = openDatabase({ url: `${silent.url}?connect_timeout=1` });
  t.teardown(() => db.close());
  await t.rejects(
    db.run(Number.POSITIVE_INFINITY, (sql) => sql`select 1`),
    { code: 'DEADLINE', message: /no answer within 2000 ms/ },
  );
});

t.test('of a host that falls silent no second connection is waited for', async (t) => {
  const [one, two] = [await startProxy(t, url), await startProxy(t, url)];
  const [a, b] = [one, two].map((proxy) => new URL(proxy.url).host);
  const db = openDatabase({
    url: new URL(one.url).href.replace(a as string, `${a},${b}`),
    maxConnections: 3,
  });
  t.teardown(() => db.close());
  const slow = () => db.run(MS, (sql) => sql`select pg_sleep(0.1)`);
  await Promise.all([slow(), slow(), slow()]);
  one.freeze();
  await t.rejects(
    db.run(300, (sql) => sql`select 1`),
    { code: 'DEADLINE' },
  );
  await t.resolves(
    db.run(4000, (sql) => sql`select 1`),
    'the next asks the other host',
  );
});

t.test('a silent host does not keep from asking the others again', async (t) => {
  const [one, two] = [await startProxy(t, url), await startProxy(t, url)];
  const [a, b] = [one, two].map((proxy) => new URL(proxy.url).host);
  const db = openDatabase({
    url: new URL(one.url).href.replace(a as string, `${a},${b}`),
    maxConnections: 1,
  });
  t.teardown(() => db.close());
  await one.cut();
  await db.run(MS, (sql) => sql`select 1`); // by the second host, which is asked first from now on
  await two.cut();
  await one.restore();
  one.freeze();
  await db.run(MS, (sql) => sql`select 1`).catch(() => {}); // the connection that breaks
  const before = one.connections;
  const asking = db.run(5000, (sql) => sql`select 1`);
  await until(() => one.connections > before, 'the silent host is asked');
  await two.restore();
  await t.resolves(asking);
});

t.test('closing', async (t) => {
  const closing = openDatabase({ url: `${url}&application_name=closing`, maxConnections: 1 });
  closing.listen('x', {
    onNotice: () => {},
    onReady: () => {},
    onLost: () => t.fail('closing is no loss'),
  });
  await closing.run(MS, (sql) => sql`select 1`);
  const running = closing.run(MS, (sql) => sql`select pg_sleep(30)`);
  const queued = closing.run(MS, (sql) => sql`select 1`);
  const both = Promise.all([
    t.rejects(running, { code: 'CLOSED', unavailable: true }),
    t.rejects(queued, { code: 'CLOSED' }),
  ]);
  await closing.close();
  await both;
  await t.rejects(
    closing.run(MS, (sql) => sql`select 1`),
    { code: 'CLOSED' },
  );
  const none = `not exists (select from pg_stat_activity where application_name = 'closing')`;
  await until(() => holds(db, none), 'no connection is left');
});

t.test(
  'an unreachable or unwilling server is unavailable, and no message holds the password',
  async (t) => {
    const proxy = await startProxy(t, url);
    const port = new URL(proxy.url).port;
    const urls = {
      'no such database': inDatabase(url, 'nowhere'),
      'no such socket': 'postgres://u:secret@/db?host=/nonexistent',
      'nobody listens': 'postgres://u:secret@127.0.0.1:1/db',
      'nobody listens at any address of a name': 'postgres://u:secret@localhost:1/db',
      'no such role': `postgres://stranger:secret@127.0.0.1:${port}/postgres`,
      'no TLS there': `postgres://tollgate:secret@127.0.0.1:${port}/postgres?sslmode=require`,
    };
    for (const [name, address] of Object.entries(urls)) {
      const db = openDatabase({ url: address });
      const error = (await db
        .run(3000, (sql) => sql`select 1`)
        .catch((error) => error)) as DatabaseUnavailable;
      t.type(error, DatabaseUnavailable, name);
      t.not(error.code, 'DEADLINE', error.message);
      t.match(error.message, /: ./);
      t.notMatch(
        `${error.message} ${error.stack} ${JSON.stringify(error)} ${error.cause}`,
        /secret/,
        name,
      );
      await db.close();
    }
  },
);
