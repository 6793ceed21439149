import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Payer } from '../../src/domain/key.ts';
import { CallReader } from '../../src/ledger/call-reader.ts';
import { systemTiming } from '../../src/ledger/timing.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { thrownBy } from '../support/client.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';

const { db } = await testDatabase(t);
const store = ledgerStore(db);
const MONTHS = ['2026-11-01'];
const newPayer = (): Payer => ({ id: randomUUID(), companyId: randomUUID() });

/** A reader whose monotonic clock stands still until it is moved, and the sizes of its looks. */
function open(calls: typeof store.calls = store.calls) {
  const looks: number[] = [];
  const clock = { now: 0 };
  const counted: typeof store.calls = (wanted) => {
    looks.push(wanted.length);
    return calls(wanted);
  };
  const state = { available: true };
  const timing = { ...systemTiming(Date.now), uptime: () => clock.now };
  const options = { store: { calls: counted }, timing, isAvailable: () => state.available };
  return { looks, clock, state, reader: new CallReader(options) };
}

t.test('a row that comes later is waited for, and looked for together with others', async (t) => {
  const { looks, reader } = open();
  const [payer, other] = [newPayer(), newPayer()];
  const [id, next] = [randomUUID(), randomUUID()];
  const found = [
    reader.find(payer, id, MONTHS),
    reader.find(payer, id, MONTHS),
    reader.find(other, next, MONTHS),
  ];
  await until(() => looks.length > 3, 'some looks');
  await db.run(60_000, (sql) =>
    addUsage(sql, [
      { company: payer.companyId, key: payer.id, request: id, prompt: 5 },
      { company: other.companyId, key: other.id, request: next, prompt: 6 },
    ]),
  );
  t.match(await Promise.all(found), [
    { promptTokens: 5 },
    { promptTokens: 5 },
    { promptTokens: 6 },
  ]);
  t.equal(Math.max(...looks), 2, 'one look for all, and one for those who ask for the same');
});

t.test('a row of another key, or none, is not found after a second', async (t) => {
  const { clock, looks, reader } = open();
  const [payer, other] = [newPayer(), newPayer()];
  const id = randomUUID();
  await db.run(60_000, (sql) =>
    addUsage(sql, [{ company: other.companyId, key: other.id, request: id }]),
  );
  const colleague = { ...other, id: payer.id };
  const asked = [reader.find(payer, id, MONTHS), reader.find(colleague, id, MONTHS)];
  let settled = 0;
  for (const each of asked) void each.then(() => settled++);
  await until(() => looks.length > 2, 'some looks');
  t.equal(settled, 0);
  clock.now += 1000;
  t.same(await Promise.all(asked), [null, null]);
  t.match(await reader.find(other, id, MONTHS), { requestId: id });
});

t.test('ten calls of a key and two hundred in all are looked for at once', async (t) => {
  const { clock, looks, reader } = open();
  const asked = Array.from({ length: 200 }, newPayer).map((payer) =>
    reader.find(payer, randomUUID(), MONTHS),
  );
  const [payer] = [newPayer()];
  t.match(await thrownBy(reader.find(payer, randomUUID(), MONTHS)), { status: 503 });
  clock.now += 1000;
  t.equal((await Promise.all(asked)).filter((call) => call === null).length, 200);
  t.ok(Math.max(...looks) <= 200);

  const own = Array.from({ length: 10 }, () => reader.find(payer, randomUUID(), MONTHS));
  t.match(await thrownBy(reader.find(payer, randomUUID(), MONTHS)), { status: 429 });
  clock.now += 1000;
  await Promise.all(own);
});

t.test(
  'with the database away the answer is 503, and nobody waits while that is known',
  async (t) => {
    const away = Object.assign(new Error('away'), { unavailable: true });
    const { looks, state, reader } = open(() => Promise.reject(away));
    t.match(await thrownBy(reader.find(newPayer(), randomUUID(), MONTHS)), { status: 503 });
    state.available = false;
    const before = looks.length;
    t.match(await thrownBy(reader.find(newPayer(), randomUUID(), MONTHS)), { status: 503 });
    t.equal(looks.length, before);
    const broken = open(() => Promise.reject(new TypeError('a defect')));
    t.match(await thrownBy(broken.reader.find(newPayer(), randomUUID(), MONTHS)), {
      message: 'a defect',
    });
  },
);

t.test('companies with many keys leave some looks to others, two of them as well', async (t) => {
  for (const companies of [1, 2]) {
    const { clock, reader } = open(async () => []);
    const asked = Array.from({ length: companies }, () => randomUUID()).flatMap((companyId) =>
      Array.from({ length: 200 }, () =>
        reader
          .find({ id: randomUUID(), companyId }, randomUUID(), MONTHS)
          .then(String, ({ name }) => name),
      ),
    );
    const other = reader.find(newPayer(), randomUUID(), MONTHS);
    clock.now += 1000;
    t.equal(await other, null, 'it is looked for');
    const found = (await Promise.all(asked)).filter((answer) => answer === 'null');
    t.ok(found.length > 160 && found.length < 200, `${found.length} of ${companies}`);
  }
});
