import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import { Places } from '../../src/runtime/places.ts';

/** A connection as `Places` knows it. */
class Connection extends EventEmitter {
  readonly remoteAddress: string;
  /** Set once it had an answer. */
  timeout = 0;
  isBusy = false;
  isClosed = false;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  destroy(): void {
    this.isClosed = true;
    this.emit('close');
  }

  setTimeout(): void {
    this.isClosed = true;
  }
}

function open(count: number, areProxied = false) {
  let full = 0;
  const isBusy = (socket: Socket) => (socket as unknown as Connection).isBusy;
  const places = new Places({ count, areProxied, isBusy, onFull: () => full++ });
  const take = (address: string, state: Partial<Connection> = {}): Connection => {
    const connection = Object.assign(new Connection(address), state);
    if (!places.take(connection as unknown as Socket)) connection.isClosed = true;
    return connection;
  };
  return { take, full: () => full };
}

t.test(
  'who has the most gives a place to a new connection, the oldest that never had an answer first',
  async (t) => {
    const { take, full } = open(6);
    const idle = take('10.0.0.1', { timeout: 1000 });
    const busy = take('10.0.0.1', { isBusy: true });
    const silent = [take('10.0.0.1'), take('10.0.0.1')];
    const other = [take('10.0.0.2'), take('10.0.0.2')];
    t.equal(full(), 0);
    const third = take('10.0.0.3');
    t.strictSame(
      [third, ...silent, idle, busy, ...other].map(({ isClosed }) => isClosed),
      [false, true, false, false, false, false, false],
    );
    take('10.0.0.4');
    t.ok(silent[1]?.isClosed, 'then the younger one');
    t.equal(full(), 2);
  },
);

t.test(
  'a new connection of who has the most takes the place of an idle one of the same',
  async (t) => {
    const { take } = open(3);
    const idle = [take('10.0.0.1', { timeout: 1000 }), take('10.0.0.1', { timeout: 1000 })];
    const other = take('10.0.0.2');
    t.notOk(take('10.0.0.1').isClosed);
    t.strictSame(
      [...idle, other].map(({ isClosed }) => isClosed),
      [true, false, false],
    );
  },
);

t.test(
  'requests under way are not ended: the new one is closed where its network has the most and all are busy',
  async (t) => {
    const { take } = open(3);
    const busy = [take('10.0.0.1', { isBusy: true }), take('10.0.0.1', { isBusy: true })];
    const other = take('10.0.0.2');
    t.ok(take('10.0.0.1').isClosed);
    t.strictSame(
      [...busy, other].map(({ isClosed }) => isClosed),
      [false, false, false],
    );
    t.notOk(take('10.0.0.3').isClosed, 'another network gets the place of one that is not busy');
    t.ok(other.isClosed);
  },
);

t.test('an IPv6 network is counted as one', async (t) => {
  const { take } = open(3);
  const [first] = [take('2001:db8:0:1::1'), take('2001:db8:0:1:ffff::2'), take('2001:db8:0:2::1')];
  take('2001:db8:0:3::1');
  t.ok(first?.isClosed);
});

t.test(
  'behind proxies no address has too many, and who never had an answer goes first',
  async (t) => {
    const { take } = open(4, true);
    const idle = [1, 2, 3].map(() => take('10.0.0.1', { timeout: 1000 }));
    const silent = take('10.0.0.2');
    t.notOk(take('10.0.0.1').isClosed);
    t.ok(silent.isClosed);
    t.ok(idle.every(({ isClosed }) => !isClosed));
  },
);

t.test('a place is free again when its connection closes', async (t) => {
  const { take, full } = open(2);
  take('10.0.0.1').destroy();
  take('10.0.0.1');
  take('10.0.0.1');
  t.equal(full(), 0);
});
