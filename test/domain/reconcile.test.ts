import { randomUUIDv7 } from 'node:crypto';
import t from 'tap';
import { type BilledCall, reconcile, spanOf } from '../../src/domain/reconcile.ts';

const HOUR = 3_600_000;
const call = (requestId: string | null, at: number): BilledCall => ({
  name: 'a call',
  requestId,
  model: 'm',
  promptTokens: 7,
  completionTokens: 3,
  at,
  ...{ cost: null, charged: null, companyId: null },
});

t.test('a call is found by our id though the upstream tells its end, hours later', async (t) => {
  const id = randomUUIDv7();
  const began = Date.now();
  const billed = [call(id, began + 3 * HOUR)];
  const [first, last] = spanOf(billed);
  t.ok(first <= began && first > began - 60_000);
  t.equal(last, began + 3 * HOUR);
  t.match(reconcile(billed, [call(id, began)], 60_000), { matched: 1, missing: [], extra: [], differing: [] });
});

t.test('an id that is none of ours says nothing of the time', async (t) => {
  const at = Date.now();
  const ids = [null, 'chatcmpl-1', '00000000-0000-7000-8000-000000000001', '5f15994a-a1b0-4e33-8e66-91ead47848fa'];
  t.same(spanOf(ids.map((id) => call(id, at))), [at, at]);
});
