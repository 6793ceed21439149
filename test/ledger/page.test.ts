import t from 'tap';
import { parsePrices } from '../../src/domain/money.ts';
import { type UsageRecord, usageRecord } from '../../src/domain/usage.ts';
import { readFrames } from '../../src/ledger/frame.ts';
import { BatchText, type Entry, framesOf, Pages } from '../../src/ledger/page.ts';
import { recordText } from '../support/record.ts';

const company = '00000000-0000-4000-8000-000000000001';
const account = { companyId: company, month: '2026-11-01', spent: 0n, pending: 0n, read: false, forgotten: false };

function record(n: number, upstream = 'x'.repeat(1 + (n % 700))): UsageRecord {
  const requestId = `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
  const payer = { id: company, companyId: company };
  const prices = parsePrices('0.0005', '0.0015');
  const model = { slug: 'chat', upstream, kind: 'chat', euHosted: true, prices, created: 0 } as const;
  const admission = { requestId, payer, model, endpoint: 'chat.completions', at: n, month: '2026-11-01' } as const;
  return usageRecord(admission, { prompt: n, completion: n }, 'upstream', 'completed');
}

function json(n: number): string {
  return recordText(record(n));
}

function kept(pages: Pages, from: number, to: number): Entry[] {
  const numbers = Array.from({ length: to - from }, (_, i) => from + i);
  return numbers.map((n) => pages.keep(record(n), account, 0));
}

function loaded(n: number): Entry {
  return { requestId: '', companyId: company, month: '2026-11-01', account: null, cost: 0n, at: 0, json: json(n) };
}

t.test('a batch is one JSON array of its records, wherever they lie', async (t) => {
  const pages = new Pages();
  const text = new BatchText();
  const entries = kept(pages, 0, 3000); // a page holds some 500
  const all = `${text.of(entries)}`;
  t.same(JSON.parse(all), JSON.parse(`[${entries.map((entry) => entry.json).join(',')}]`));
  t.match(all, /^\[\{.*\}\]$/s);
  for (const [from, to] of [
    [0, 1],
    [7, 8],
    [0, 1500],
    [1500, 3000],
    [2999, 3000],
  ] as const) {
    const half = entries.slice(from, to);
    t.same(
      JSON.parse(`${text.of(half)}`),
      JSON.parse(`[${half.map((entry) => entry.json).join(',')}]`),
      `${from} to ${to}`,
    );
  }
  t.equal(`${text.of(entries)}`, all, 'again, with nothing left of a shorter one');
  t.equal(`${text.of([])}`, '[]');
});

t.test('records in memory and such as were read back from the disk make one array', async (t) => {
  const text = new BatchText();
  const [a, b, c, d] = kept(new Pages(), 0, 4) as [Entry, Entry, Entry, Entry];
  for (const mixed of [
    [loaded(10), a, b, loaded(11), c],
    [a, loaded(10)],
    [loaded(10), loaded(11)],
    [a, c, d], // one between them is missing
    [b, a],
  ]) {
    t.equal(`${text.of(mixed)}`.replace(/\}\s*,\{/g, '},{'), `[${mixed.map((entry) => entry.json).join(',')}]`);
  }
});

t.test('an array that may still be on its way stays as it is', async (t) => {
  const text = new BatchText();
  const entries = kept(new Pages(), 0, 4);
  const sent = text.of(entries.slice(0, 2));
  const before = `${sent}`;
  text.letGo();
  text.of(entries.slice(2));
  t.equal(`${sent}`, before);
});

t.test('an array leaves the frames as they are', async (t) => {
  const entries = kept(new Pages(), 0, 3);
  new BatchText().of(entries);
  t.same(
    readFrames(framesOf(entries) as Buffer),
    [0, 1, 2].map((n) => ({ record: json(n), damage: null })),
  );
});

t.test('a record larger than a page is kept like any other', async (t) => {
  const pages = new Pages();
  const records = [record(1), record(2, 'y'.repeat(300_000)), record(3)];
  const entries = records.map((record) => pages.keep(record, account, 0));
  t.same(
    entries.map((entry) => entry.json),
    records.map(recordText),
  );
  for (const entry of entries) entry.release?.();
  t.equal(pages.keep(record(4), account, 0).json, json(4), 'and its room is not used again');
});

t.test('an entry knows its request', async (t) => {
  const [entry] = kept(new Pages(), 42, 43);
  t.equal(entry?.requestId, '00000000-0000-7000-8000-000000000042');
});
