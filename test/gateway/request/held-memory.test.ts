import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { CallMeter } from '../../../src/gateway/answer/call-meter.ts';
import { JsonRelay } from '../../../src/gateway/answer/json-relay.ts';
import { type BodyListener, readBody } from '../../../src/gateway/request/body.ts';
import { addTime } from '../../../src/gateway/request/fair-shares.ts';
import { HeldMemory, RequestMemory } from '../../../src/gateway/request/held-memory.ts';
import type { Reply } from '../../../src/gateway/request/reply.ts';
import type { BodySink, ClientRequest } from '../../../src/http/exchange.ts';
import { BodyMemory } from '../../../src/runtime/body-memory.ts';
import type { AnswerHead } from '../../../src/upstream/upstream.ts';
import { until } from '../../support/until.ts';

t.test(
  'one company holds seven eighths of the memory, and leaves the rest to others',
  async (t) => {
    const memory = new HeldMemory(800);
    const one = new RequestMemory(memory, 'one');
    t.notOk(one.take(700));
    t.ok(one.take(699));
    t.notOk(one.take(1));
    t.match(memory, { all: 699, refused: 2 });
    const other = new RequestMemory(memory, 'other');
    t.ok(other.take(80));
    one.end();
    one.end();
    t.equal(memory.all, 80, 'it is given back once');
    t.ok(one.take(600), 'and may be taken again');
    other.end();
    one.end();
    t.equal(memory.all, 0);
  },
);

t.test('what is held may change in size, beyond a share too', async (t) => {
  const memory = new HeldMemory(800);
  const one = new RequestMemory(memory, 'one');
  t.ok(one.take(100));
  one.hold(750);
  t.equal(memory.all, 750);
  t.notOk(new RequestMemory(memory, 'one').take(1));
  one.hold(50);
  t.equal(memory.all, 50);
  one.end();
  t.equal(memory.all, 0);
  t.ok(new RequestMemory(memory, 'one').take(600));
});

/** A request whose body comes by `push`. */
function requestOf(contentLength: number) {
  let sink: BodySink | null = null;
  const readBody = (to: BodySink): void => {
    sink = to;
  };
  const req = { head: { contentLength }, takeBody: () => null, readBody, readOn() {} };
  const push = (bytes: number): boolean =>
    (sink as unknown as BodySink).onPiece(Buffer.alloc(bytes, 0x20), 'own');
  return { req: req as unknown as ClientRequest, push };
}

t.test('a body without a length counts as work and as memory while it comes', async (t) => {
  const seen = { worked: 0, held: 0, refused: '' };
  const listener: BodyListener = {
    onWait() {},
    onBody: () => t.fail('it never ends'),
    onNoBody: ({ name }) => {
      seen.refused = name;
    },
    takeMemory(bytes) {
      seen.held += bytes;
      return seen.held < 1_000_000;
    },
    onThrown() {},
    worked(bytes) {
      seen.worked += bytes;
    },
  };
  const { req, push } = requestOf(-1);
  readBody(req, 10_000_000, new BodyMemory(), listener);
  for (let n = 0; n < 10; n++) push(65_536);
  t.match(seen, { worked: 655_360, held: 655_360, refused: '' });
  for (let n = 0; n < 1280; n++) push(64);
  t.equal(seen.worked, 655_360 + 1280 * 1024, 'small pieces cost as much as larger ones');
  t.equal(seen.held, 655_360 + 1280 * 64);
  for (let n = 0; n < 10; n++) push(65_536);
  t.equal(seen.refused, 'service_unavailable', 'there is no more memory for it');

  const small = requestOf(65_536);
  const large = requestOf(65_537);
  Object.assign(seen, { held: 0, refused: '' });
  readBody(small.req, 10_000_000, new BodyMemory(), listener);
  t.equal(seen.held, 0);
  readBody(large.req, 10_000_000, new BodyMemory(), listener);
  t.equal(seen.held, 65_537, 'one with a length takes its memory before it is read');
});

t.test('a body that takes longer to read than its bytes count as counts by its time', async (t) => {
  const load = { inFlight: 1, work: 0 };
  addTime(load, 5.05, 65_536);
  t.equal(Math.round(load.work), 99, 'one request and 64 KiB of it are counted already');
  addTime(load, 0.08, 65_536);
  t.equal(Math.round(load.work), 99);
  const message = '{"role":"user","content":"x"}';
  for (const [size, isTimed] of [
    [3000, true],
    [20_000, true],
    [90_000, true],
    [300_000, true],
    [200, false],
  ] as const) {
    const bytes = Buffer.from(
      `{"messages":[${Array(Math.ceil(size / message.length)).fill(message)}]}`,
    );
    for (const way of ['with its head', 'behind it', 'without a length']) {
      const readTo = (sink: BodySink): void => {
        for (let at = 0; at < bytes.length; at += 65_536)
          sink.onPiece(bytes.subarray(at, at + 65_536), 'kept');
        sink.onWhole();
      };
      const head = { contentLength: way === 'without a length' ? -1 : bytes.length };
      const req = {
        head,
        takeBody: () => (way === 'with its head' ? bytes : null),
        readBody: readTo,
        readOn() {},
      };
      readBody(req as unknown as ClientRequest, 1_000_000, new BodyMemory(), {
        onWait() {},
        onBody: ({ parseMs }) => t.equal(parseMs > 0, isTimed, `${size} ${way}`),
        onNoBody: ({ name }) => t.fail(name),
        takeMemory: () => true,
        worked() {},
        onThrown() {},
      });
    }
  }
});

t.test(
  'large bodies are checked at once while nobody else asks for anything, and in turns beside other work',
  async (t) => {
    const memory = new BodyMemory();
    const told: string[] = [];
    const read = (size: number): void => {
      const body = Buffer.from(`{"x":"${'y'.repeat(size)}"}`);
      const readTo = (sink: BodySink): void => {
        sink.onPiece(body, 'kept');
        sink.onWhole();
      };
      const req = {
        head: { contentLength: body.length },
        takeBody: () => null,
        readBody: readTo,
        readOn() {},
      };
      readBody(req as unknown as ClientRequest, 1_000_000, memory, {
        onWait() {},
        onBody: ({ object }) => told.push(typeof object === 'string' ? object : `${size}`),
        onNoBody: ({ name }) => t.fail(name),
        takeMemory: () => true,
        worked() {},
        onThrown() {},
      });
    };
    read(100_000);
    t.same(told, ['100000']);
    read(10); // other work
    read(100_000);
    t.same(told, ['100000', '10'], 'not yet');
    await until(() => told.length === 3, 'its turn');
    t.same(told, ['100000', '10', '100000']);
  },
);

t.test(
  'a body in pieces of a few bytes holds no more memory than others, and its pieces count as work',
  async (t) => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as NodeJS.GCFunction;
    for (const [announced, size] of [
      [65_536, 1],
      [-1, 8],
    ] as const) {
      let [work, taken] = [0, 0];
      const { req, push } = requestOf(announced);
      const listener: BodyListener = {
        onWait() {},
        onBody() {},
        onNoBody: ({ name }) => t.fail(name),
        takeMemory(bytes) {
          taken += bytes;
          return true;
        },
        onThrown() {},
        worked(bytes) {
          work += bytes;
        },
      };
      readBody(req, 10_000_000, new BodyMemory(), listener);
      collect();
      const before = process.memoryUsage().heapUsed;
      for (let n = 0; n < 65_528; n += size) push(size);
      collect();
      const kept = process.memoryUsage().heapUsed - before;
      t.ok(kept < 400_000, `${kept} bytes`); // 2 to 15 million where each piece is kept
      const cost = (65_528 / size) * 1024 - Math.max(0, announced);
      t.ok(work > cost - 131_072 && work <= cost, `${work} of ${cost}`);
      t.ok(
        announced < 0 || taken === 0,
        'a small body that is announced takes no memory of large ones',
      );
    }
  },
);

/** A relay of one company's answer, and what became of it. */
function relayOf(memory: HeldMemory) {
  const became = { error: '', aborted: false, left: () => {} };
  const watch = { sent() {}, answered() {}, settled() {}, close() {}, abandon: () => true };
  const load = { inFlight: 1, work: 0 };
  const newMemory = () => new RequestMemory(memory, 'one');
  const admission = { payer: { companyId: 'one' } };
  const meter = {
    admission,
    load,
    newMemory,
    maxAnswerBytes: 10_000_000,
    readOnMs: { streamed: 3000, whole: 3_600_000 },
    watch: () => watch,
    settle() {},
    upstreamFailed() {},
  } as unknown as CallMeter;
  const error = ({ name }: Error) => {
    became.error = name;
  };
  const reply = { error, res: { writableFinished: false } } as unknown as Reply;
  const relay = new JsonRelay(reply, meter, (body) => body);
  relay.onConnected({
    abort() {
      became.aborted = true;
    },
    leave() {},
  } as never);
  relay.onHead({ status: 200, contentType: 'application/json', contentLength: -1 } as AnswerHead);
  return { relay, became, load };
}

t.test(
  'a large answer counts as work, and as memory until its client has read it or left',
  async (t) => {
    const memory = new HeldMemory(800_000);
    const first = relayOf(memory);
    first.relay.onData(Buffer.alloc(65_536), false);
    t.equal(memory.all, 0, 'a small one does not count');
    for (let n = 0; n < 7; n++) first.relay.onData(Buffer.alloc(65_536), false);
    t.equal(memory.all, 8 * 65_536);
    t.equal(first.load.work, 8);

    const second = relayOf(memory);
    for (let n = 0; n < 3; n++) second.relay.onData(Buffer.alloc(65_536), false);
    t.match(
      second.became,
      { error: 'service_unavailable', aborted: true },
      'the company holds too much',
    );
    second.relay.onClientClose();
    t.equal(memory.all, 10 * 65_536 - 2 * 65_536, 'what it had is given back');

    first.relay.onClientClose();
    t.equal(memory.all, 8 * 65_536, 'an answer that is still awaited keeps its memory');
    first.relay.onError(new Error('gone'));
    t.equal(memory.all, 0);
  },
);
