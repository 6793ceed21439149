import t from 'tap';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { type UsageRecord, usageRecord } from '../../src/domain/usage.ts';
import {
  BatchJson,
  linesOf,
  type PendingRecord,
  RecordBlocks,
} from '../../src/ledger/record-block.ts';
import { SpendTable } from '../../src/ledger/spend.ts';
import { readLines } from '../../src/ledger/spool-line.ts';
import { recordText } from '../support/record.ts';

const company = '00000000-0000-4000-8000-000000000001';
const table = new SpendTable();
const figures = table.add(table.key({ id: company, companyId: company }), '2026-11-01', 0n);

function record(n: number, upstream = 'x'.repeat(1 + (n % 700))): UsageRecord {
  const requestId = `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
  const payer = { id: company, companyId: company };
  const prices = parsePrices('0.0005', '0.0015');
  const model = {
    slug: 'chat',
    upstream,
    kind: 'chat',
    euHosted: true,
    acceptsTokens: false,
    prices,
    created: 0,
    next: null,
  } as const;
  const costCenter = n % 3 === 0 ? `Abteilung ${n}` : '';
  const shared = { requestId, payer, model, endpoint: 'chat.completions', at: n } as const;
  const admission = { ...shared, month: '2026-11-01', costCenter };
  return usageRecord(admission, { prompt: n, completion: n }, 'upstream', 'completed');
}

function json(n: number): string {
  return recordText(record(n));
}

function kept(blocks: RecordBlocks, from: number, to: number): PendingRecord[] {
  const numbers = Array.from({ length: to - from }, (_, i) => from + i);
  return numbers.map((n) => blocks.add(record(n), figures, 0));
}

function loaded(n: number): PendingRecord {
  return new RecordBlocks().restore(json(n), 0n, 0);
}

t.test('a batch is one JSON array of its records, wherever they lie', async (t) => {
  const blocks = new RecordBlocks();
  const array = new BatchJson();
  const records = kept(blocks, 0, 3000); // a block holds some 500
  const all = `${array.of(records)}`;
  t.same(JSON.parse(all), JSON.parse(`[${records.map((one) => one.json).join(',')}]`));
  t.match(all, /^\[\{.*\}\]$/s);
  for (const [from, to] of [
    [0, 1],
    [7, 8],
    [0, 1500],
    [1500, 3000],
    [2999, 3000],
  ] as const) {
    const half = records.slice(from, to);
    t.same(
      JSON.parse(`${array.of(half)}`),
      JSON.parse(`[${half.map((one) => one.json).join(',')}]`),
      `${from} to ${to}`,
    );
  }
  t.equal(`${array.of(records)}`, all, 'again, with nothing left of a shorter one');
});

t.test('records in memory and such as were read back from the disk make one array', async (t) => {
  const array = new BatchJson();
  const [a, b, c, d] = kept(new RecordBlocks(), 0, 4) as [
    PendingRecord,
    PendingRecord,
    PendingRecord,
    PendingRecord,
  ];
  for (const mixed of [
    [loaded(10), a, b, loaded(11), c],
    [a, loaded(10)],
    [loaded(10), loaded(11)],
    [a, c, d], // one between them is missing
    [b, a],
  ]) {
    t.equal(
      `${array.of(mixed)}`.replace(/\}\s*,\{/g, '},{'),
      `[${mixed.map((one) => one.json).join(',')}]`,
    );
  }
});

t.test('an array that may still be on its way stays as it is', async (t) => {
  const array = new BatchJson();
  const records = kept(new RecordBlocks(), 0, 4);
  const sent = array.of(records.slice(0, 2));
  const before = `${sent}`;
  array.abandon();
  array.of(records.slice(2));
  t.equal(`${sent}`, before);
});

t.test('an array leaves the lines as they are', async (t) => {
  const records = kept(new RecordBlocks(), 0, 3);
  new BatchJson().of(records);
  t.same(
    readLines(linesOf(records)),
    [0, 1, 2].map((n) => ({ record: json(n), damage: null })),
  );
});

t.test('a record larger than a block is kept like any other', async (t) => {
  const blocks = new RecordBlocks();
  const usage = [record(1), record(2, 'y'.repeat(300_000)), record(3)];
  const records = usage.map((record) => blocks.add(record, figures, 0));
  t.same(
    records.map((one) => one.json),
    usage.map(recordText),
  );
  for (const one of records) one.release();
  t.equal(blocks.add(record(4), figures, 0).json, json(4), 'and its room is not used again');
});

t.test('a record knows its request', async (t) => {
  const [one] = kept(new RecordBlocks(), 42, 43);
  t.equal(one?.requestId, '00000000-0000-7000-8000-000000000042');
});
