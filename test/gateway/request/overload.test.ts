import t, { type Test } from 'tap';
import { NO_FILES } from '../../../src/domain/tokens/file.ts';
import { CallMeter } from '../../../src/gateway/answer/call-meter.ts';
import type { CompanyLoad } from '../../../src/gateway/request/fair-shares.ts';
import { Overload } from '../../../src/gateway/request/overload.ts';

const LIMITS = { maxRequests: 100, maxDelayMs: 200, maxMemoryBytes: 1000 };

/** @param now the time stands still unless it is given: samples are taken by the tests alone */
function start(t: Test, limits: Partial<typeof LIMITS> = {}, now = () => 0): Overload {
  const overload = new Overload({ ...LIMITS, ...limits }, now);
  t.teardown(() => overload.close());
  return overload;
}

/** Begins requests as the listener does. @returns those that got in */
function begin(overload: Overload, company: string, count: number): CompanyLoad[] {
  const begun = Array.from({ length: count }, () =>
    overload.enter(overload.needsCompany ? company : null),
  );
  return begun.filter((load) => load !== null);
}

/** How many of a hundred requests get in, one after the other. */
function entering(overload: Overload, company = 'one', count = 100): number {
  let entered = 0;
  for (let n = 0; n < count; n++) {
    for (const load of begin(overload, company, 1)) {
      overload.leave(load);
      entered++;
    }
  }
  return entered;
}

t.test('so many at once and no more; one company leaves some of them to others', async (t) => {
  const overload = start(t);
  const [first] = begin(overload, 'greedy', 200);
  t.match(
    overload,
    { inFlight: 90, refused: { requests: 110 } },
    'the first thirteen count for nobody',
  );
  t.equal(begin(overload, 'quiet', 5).length, 5, 'another company finds room');
  t.equal(begin(overload, 'greedy', 5).length, 0);
  for (const company of ['a', 'b', 'c', 'd', 'e']) begin(overload, company, 1);
  t.equal(overload.inFlight, 100);
  t.equal(begin(overload, 'g', 1).length, 0, 'there is no more than all');
  overload.leave(first as CompanyLoad);
  t.equal(begin(overload, 'g', 1).length, 1);
});

t.test('where few requests may be in flight, one company may have them all', async (t) => {
  for (const maxRequests of [1, 3, 7]) {
    t.equal(begin(start(t, { maxRequests }), 'one', 20).length, maxRequests);
  }
});

t.test('nobody is asked while there is room', async (t) => {
  const overload = start(t);
  overload.observe(3, 900, 0.5);
  t.notOk(overload.needsCompany);
  begin(overload, 'one', 13);
  t.ok(overload.needsCompany, 'an eighth is in flight');
});

t.test(
  'little memory left refuses more and more, none left refuses all, until there is some',
  async (t) => {
    const overload = start(t);
    const held = begin(overload, 'one', 2); // with fewer in flight nothing is refused
    const entered = [900, 950, 970, 990, 1000].map((memory) => {
      for (let n = 0; n < 3; n++) {
        entering(overload);
        overload.observe(0, memory, 0);
      }
      return entering(overload);
    });
    t.equal(entered[0], 100);
    t.same(
      entered,
      entered.toSorted((a, b) => b - a),
    );
    t.ok((entered[3] as number) < 40, `${entered}`);
    t.equal(entered[4], 0);
    t.ok(overload.isFull);
    t.notOk(overload.needsCompany, 'where all are refused, nobody is asked');
    overload.observe(0, 900, 0);
    t.equal(entering(overload), 100);
    overload.observe(0, 0, 0.95);
    t.equal(entering(overload), 0, 'the heap as well');
    for (const load of held) overload.leave(load);
  },
);

t.test(
  'memory that stays full when nothing is in flight is used again: few at once get in, of all companies',
  async (t) => {
    const overload = start(t, { maxRequests: 1000 });
    const rush = begin(overload, 'greedy', 100);
    for (let n = 0; n < 3; n++) overload.observe(0, 1000, 0);
    t.equal(entering(overload, 'quiet'), 0, 'while the rush holds the memory');
    for (const load of rush) overload.leave(load);
    for (let n = 0; n < 50; n++) {
      overload.observe(0, 1000, 0); // the system keeps it
      t.equal(entering(overload, 'quiet', 10), 10);
    }
    const few = begin(overload, 'greedy', 100);
    t.ok(few.length > 5 && few.length < 1000 / 64, `${few.length} of 100`);
    t.equal(entering(overload, 'quiet', 10), 10, 'the greedy one leaves room');
    t.ok(overload.refused.memory > 100);
    t.equal(overload.refused.requests, 0);
  },
);

t.test(
  'a long event-loop delay refuses more and more, a short one lets all in again within 5 s',
  async (t) => {
    const overload = start(t);
    overload.observe(300, 0, 0);
    t.equal(entering(overload, 'one', 1000), 1000, 'one pause is no overload');
    const shares: number[] = [];
    for (let n = 0; n < 60; n++) {
      overload.observe(500, 0, 0);
      shares.push(entering(overload, 'one', 1000));
    }
    t.ok((shares[5] as number) < (shares[2] as number) && (shares[2] as number) < 700, `${shares}`);
    t.ok((shares.at(-1) as number) < 100);
    t.ok((shares.at(-1) as number) > 0, 'some always get in');
    let samples = 0;
    while (entering(overload, 'one', 1000) < 1000) {
      overload.observe(1, 0, 0);
      samples++;
    }
    t.ok(samples <= 50, `${samples} samples of 100 ms`);
  },
);

t.test(
  'a late event loop refuses nothing of the little that is asked for: it is late for another reason',
  async (t) => {
    const overload = start(t);
    for (let sample = 0; sample < 50; sample++) {
      overload.observe(1000, 0, 0);
      t.equal(entering(overload, 'one', 20), 20);
    }
  },
);

t.test('an overload by one company refuses nothing of the others', async (t) => {
  const overload = start(t);
  const entered = { greedy: 0, quiet: 0 };
  for (let sample = 0; sample < 200; sample++) {
    const greedy = entering(overload, 'greedy', 1000);
    entered.greedy += greedy;
    entered.quiet += entering(overload, 'quiet', 10) + entering(overload, 'other', 10);
    overload.observe(greedy > 100 ? 400 : 10, 0, 0); // the gateway can answer 120 requests in a sample
  }
  t.equal(entered.quiet, 4000);
  t.ok(entered.greedy > 200 * 60 && entered.greedy < 200 * 200, `${entered.greedy} of 200000`);
  t.equal(overload.refused.delay, 200_000 - entered.greedy);
});

t.test(
  'in a busy gateway requests of a company that asks for most come later, of one that is alone never',
  async (t) => {
    const overload = start(t);
    const later = (company: string): boolean =>
      begin(overload, company, 1).some((load) => overload.delays(load));
    const sample = (...companies: string[]): void => {
      for (const company of companies)
        entering(overload, company, company === 'greedy' ? 1000 : 10);
      overload.observe(20, 0, 0);
    };
    t.notOk(later('greedy'), 'there is no delay yet');
    for (let n = 0; n < 3; n++) sample('greedy');
    t.notOk(later('greedy'), 'nobody else asks');
    for (let n = 0; n < 3; n++) sample('greedy', 'quiet');
    t.ok(later('greedy'));
    t.notOk(later('quiet'));
    for (let n = 0; n < 60; n++) overload.observe(0, 0, 0);
    t.notOk(later('greedy'), 'the gateway is no longer busy');
  },
);

t.test(
  'requests that wait for their refusal are not taken for less demand: the others are still served',
  async (t) => {
    const overload = start(t);
    for (let sample = 0; sample < 10; sample++) {
      entering(overload, 'greedy', 1000);
      entering(overload, 'quiet', 10);
      overload.observe(400, 0, 0);
    }
    let quiet = 0;
    for (let sample = 0; sample < 15; sample++) {
      entering(overload, 'greedy', 5); // all its connections wait
      quiet += entering(overload, 'quiet', 10);
      overload.observe(400, 0, 0); // something else on the machine
    }
    t.equal(quiet, 150);
  },
);

t.test('after a pause of the process what has come meanwhile is no flood', async (t) => {
  const overload = start(t);
  const quiet = (count: number) =>
    ['a', 'b', 'c', 'd', 'e'].map((company) => entering(overload, company, count));
  for (let sample = 0; sample < 30; sample++) {
    entering(overload, 'greedy', 300);
    t.same(quiet(3), [3, 3, 3, 3, 3]);
    overload.observe(1000, 0, 0);
  }
  for (const ms of [1000, 100, 100]) {
    overload.observe(1000, 0, 0, ms);
    entering(overload, 'greedy', 300);
    t.same(quiet(8), [8, 8, 8, 8, 8]);
  }
});

t.test('packets of streams count as work of the company that asked for them', async (t) => {
  const overload = start(t);
  overload.observe(1000, 0, 0);
  const streams = begin(overload, 'streaming', 10);
  let refused = 0;
  for (let sample = 0; sample < 15; sample++) {
    for (const load of streams) load.work += 100;
    refused += 10 - entering(overload, 'streaming', 10);
    t.equal(entering(overload, 'asking', 20), 20);
    overload.observe(1000, 0, 0);
  }
  t.ok(refused > 50, `${refused} of 150 requests`);
});

t.test(
  'a failure of the upstream counts as work by the prompt that is removed from its reason',
  async (t) => {
    const load = { inFlight: 1, work: 0 };
    const admission = { requestId: 'id', model: { upstream: 'internal' } };
    const sent = [Buffer.from('{"messages":[]}'.padEnd(16_384, ' '))];
    const services = { upstream: { keys: [] }, log: { warn() {} } };
    const body = { files: NO_FILES, filePieces: new Set() };
    const call = {
      admission,
      sent,
      load,
      body,
      company: null,
      hold: null,
      request: { members: [] },
    };
    new CallMeter(services as never, call as never).upstreamFailed('status 503: busy', 503);
    t.equal(load.work, 10);
  },
);

t.test('an event loop that is too busy to run timers is noticed by the requests', async (t) => {
  let now = 0;
  const overload = start(t, { maxMemoryBytes: Number.POSITIVE_INFINITY }, () => now);
  for (; overload.refused.delay === 0 && now < 5000; now += 10) entering(overload);
  t.ok(now < 2000, `after ${now} ms without a turn of the event loop`);
});
