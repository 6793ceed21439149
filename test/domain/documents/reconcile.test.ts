import t from 'tap';
import {
  type BilledCall,
  readExport,
  reconcile,
  spanOf,
} from '../../../src/domain/documents/reconcile.ts';
import { newRequestId } from '../../../src/runtime/request-id.ts';

const HOUR = 3_600_000;
const call = (requestId: string | null, at: number): BilledCall => ({
  name: 'a call',
  requestId,
  model: 'm',
  promptTokens: 7,
  completionTokens: 3,
  at,
  cost: null,
  charged: null,
  facts: null,
  companyId: null,
});

t.test('a call is found by our id though the upstream tells its end, hours later', async (t) => {
  const began = Date.now();
  const id = newRequestId(began);
  const billed = [call(id, began + 3 * HOUR)];
  const [first, last] = spanOf(billed);
  t.ok(first <= began && first > began - 60_000);
  t.equal(last, began + 3 * HOUR);
  t.match(reconcile(billed, [call(id, began)], 60_000), {
    same: [{}],
    missing: [],
    extra: [],
    differing: [],
  });
});

t.test('an id that is none of ours says nothing of the time', async (t) => {
  const at = Date.now();
  const ids = [
    null,
    'chatcmpl-1',
    '00000000-0000-7000-8000-000000000001',
    '5f15994a-a1b0-4e33-8e66-91ead47848fa',
  ];
  t.same(spanOf(ids.map((id) => call(id, at))), [at, at]);
});

t.test('a bill without ids may have more calls than a function takes arguments', async (t) => {
  const calls = Array.from({ length: 130_000 }, (_, at) => call(null, at));
  t.equal(reconcile(calls, calls, 0).same.length, calls.length);
});

t.test('a bill that is damaged is refused by its line, and never misread', async (t) => {
  const heading = 'model,prompt_tokens,time,request_id\n';
  const good = '"m ""a"", b",7,2026-11-03T10:00:00Z,id-1\r\nm,8,2026-11-03,\n';
  t.match(readExport(heading + good), [
    { name: 'line 2', model: 'm "a", b', promptTokens: 7, completionTokens: 0, requestId: 'id-1' },
    { name: 'line 3', model: 'm', promptTokens: 8, requestId: null },
  ]);
  t.match(
    readExport(`${heading}m,7,2026-11-03T10:00:00Z`),
    [{ requestId: null }],
    'a value may be missing at the end',
  );
  for (const [line, what] of [
    ['m"1",7,2026-11-03T10:00:00Z,', 'a quote stands within a value'],
    ['"m"1,7,2026-11-03T10:00:00Z,', 'text follows a closing quote'],
    ['"m,7,2026-11-03T10:00:00Z,', 'a quote is not closed'],
    ['m,,2026-11-03T10:00:00Z,', '"" is no number of tokens'],
    ['m,7,,', '"" is no ISO 8601 time'],
    ['m,7,+020000-01-01T00:00:00Z,', '"+020000-01-01T00:00:00Z" is no ISO 8601 time'],
  ] as const) {
    t.throws(() => readExport(heading + line), { line: 2, message: what });
  }
  t.throws(() => readExport('model,time\n'), {
    line: 1,
    message: 'there is no column prompt_tokens or input_tokens',
  });
});
