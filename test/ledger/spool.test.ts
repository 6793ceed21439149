import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs, {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readRecordCost } from '../../src/domain/record.ts';
import { Backlog } from '../../src/ledger/backlog.ts';
import { type Disk, fileDisk, type SpoolFile } from '../../src/ledger/disk.ts';
import { type PendingRecord, RecordBlocks } from '../../src/ledger/record-block.ts';
import { Spool } from '../../src/ledger/spool.ts';
import { readLines } from '../../src/ledger/spool-line.ts';
import {
  type Processes,
  type ProcessIdentity,
  systemProcesses,
} from '../../src/runtime/processes.ts';

interface Bench {
  readonly folder: string;
  readonly logged: string[];
  uptime: number;
  disk: Disk;
  backlog(
    id: string,
    more?: { processes?: Processes; maxInMemory?: number; maxFileBytes?: number },
  ): Backlog;
}

function bench(t: Test): Bench {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const logged: string[] = [];
  const write = (fields: object, text: string): void =>
    void logged.push(`${text} ${JSON.stringify(fields)}`);
  const log = { warn: write, error: write };
  const self: Bench = {
    folder,
    logged,
    uptime: 0,
    disk: fileDisk(false),
    backlog(id, { processes = living(id), ...more } = {}) {
      const spool = new Spool({
        disk: self.disk,
        processes,
        folder,
        id,
        uptime: () => self.uptime,
        log,
      });
      return new Backlog({ spool, clock: () => 0, log, maxUnspooled: 100, ...more });
    },
  };
  return self;
}

/** A process everybody can look up: alive as long as it is in the set. */
const alive = new Set<string>();
function living(id: string): Processes {
  alive.add(id);
  return {
    self: { place: 'here', pid: 1, started: id },
    isAlive: ({ started }) => alive.has(started),
  };
}

const blocks = new RecordBlocks();
const month = '2026-11-01';
const id = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
function record(n: number): PendingRecord {
  const json = `{"billing_month":"${month}","request_id":"${id(n)}","company_id":"${id(0)}","api_key_id":"${id(0)}","model_slug":"m","prompt_tokens":1,"completion_tokens":2,"cost_eur":0.5,"price_input":1}`;
  return blocks.restore(json, 500_000_000_000_000n, n);
}
const records = (from: number, to: number): PendingRecord[] =>
  Array.from({ length: to - from }, (_, n) => record(from + n));

/** Everything that waits, in order. */
function drain(backlog: Backlog, max = 7): { ids: number[]; damaged: string[]; cost: bigint } {
  const ids: number[] = [];
  const damaged: string[] = [];
  let cost = 0n;
  for (;;) {
    const batch = backlog.next(max);
    if (batch === null) return { ids, damaged, cost };
    damaged.push(...batch.damaged.map(({ record }) => record));
    if (batch.damaged.length > 0) backlog.settleDamaged();
    for (const one of batch.records) {
      ids.push(Number(one.requestId.slice(-12)));
      cost += one.cost;
    }
    if (batch.records.length > 0) backlog.settle(batch.records.length);
  }
}

/** A world whose disk refuses files beyond `room` bytes, having written half of what does not fit. */
function narrow(t: Test): Bench & { room: number } {
  const world = Object.assign(bench(t), { room: Number.POSITIVE_INFINITY });
  const real = world.disk;
  world.disk = {
    ...real,
    open(path): SpoolFile {
      const file = real.open(path);
      return {
        ...file,
        append(bytes, length) {
          const fits = length <= world.room;
          file.append(bytes, fits ? length : length >> 1);
          if (!fits) throw new Error('ENOSPC: no space left on device');
        },
      };
    },
  };
  return world;
}

/** Takes the descriptors from a world, as far as these files need them. @returns gives them back */
function blind(world: Bench, concerns: (path: string) => boolean): () => void {
  const { disk } = world;
  const { read } = disk;
  disk.read = (path) => {
    if (concerns(path))
      throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
    return read(path);
  };
  return () => {
    disk.read = read;
  };
}

/** The records in the files of a folder. */
function onDisk(folder: string): number[] {
  const lines = files(folder).flatMap((name) => readLines(readFileSync(join(folder, name))));
  return lines
    .map(({ record }) => Number(readRecordCost(record)?.requestId.slice(-12)))
    .sort((a, b) => a - b);
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, n) => from + n);
const files = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.spool'),
  );

t.test('records come out as they went in, and leave nothing behind', async (t) => {
  const { folder, backlog: open } = bench(t);
  const backlog = open('a');
  for (let n = 0; n < 100; n += 10) backlog.append(records(n, n + 10));
  t.equal(backlog.size, 100);
  t.ok(backlog.bytes > 10_000);
  t.same(drain(backlog).ids, range(0, 100));
  t.equal(backlog.size, 0);
  t.equal(backlog.bytes, 0);
  t.equal(files(folder).length, 1, 'the file is used again');
  backlog.append(records(0, 1));
  t.same(drain(backlog).ids, [0]);
  backlog.close();
  t.same(readdirSync(folder), []);
});

t.test(
  'what a dead process left is adopted whole, torn tail and all, and counts for no one',
  async (t) => {
    const { folder, logged, backlog: open } = bench(t);
    open('a').append(records(0, 20));
    appendFileSync(join(folder, 'a', '00000001.spool'), '000000c3 00000000 {"billing_mon');
    alive.delete('a');
    const backlog = open('b');
    t.equal(backlog.adopt(), 20);
    t.match(logged.join(), /took over.*20/);
    backlog.append(records(20, 25));
    const { ids, damaged, cost } = drain(backlog);
    t.same(ids, range(0, 25), 'older ones first');
    t.same(damaged, [], 'nobody was promised the torn record');
    t.equal(cost, 5n * 500_000_000_000_000n, 'only its own are pending in its spend');
    backlog.close();
    t.same(readdirSync(folder), []);
  },
);

t.test(
  'what a dead process left has waited since its calls, whichever of its files comes first',
  async (t) => {
    const { folder, backlog: open } = bench(t);
    const ofDays = (...days: string[]): PendingRecord[] =>
      days
        .map((day, n) => record(n).json.replace('}', `,"occurred_at":"1969-${day}T00:00:00.000Z"}`))
        .map((json) => blocks.restore(json, 0n, 0));
    const a = open('a', { maxFileBytes: 1 });
    a.append(ofDays('10-05'));
    a.append(ofDays('11-05', '10-01'));
    a.append(records(0, 1));
    alive.delete('a');
    const backlog = open('b');
    backlog.append(ofDays('01-01'));
    backlog.adopt();
    t.equal(files(folder).length, 4);
    const since = backlog.since as number;
    t.equal(
      new Date(since).toISOString(),
      '1969-10-05T00:00:00.000Z',
      'its own since they were booked, at 0',
    );
    t.equal(drain(backlog, 1).ids.length, 5);
    t.equal(backlog.since, null);
  },
);

t.test('what a dead process left waits as well as what is its own since longer', async (t) => {
  const { backlog: open } = bench(t);
  const at = (occurred: string): PendingRecord =>
    blocks.restore(record(0).json.replace('}', `,"occurred_at":"${occurred}"}`), 0n, 0);
  open('a').append([at('1970-02-01T00:00:00.000Z')]);
  alive.delete('a');
  const backlog = open('b');
  backlog.append(records(1, 2));
  backlog.adopt();
  t.equal(backlog.since, 1, 'its own was booked before the calls of the other');
});

t.test(
  'what the disk does not give back for a moment is read at a later beat, and the rest meanwhile',
  async (t) => {
    const world = bench(t);
    const backlog = world.backlog('a', { maxInMemory: 10, maxFileBytes: 1500 });
    for (let n = 0; n < 30; n++) backlog.append(records(n, n + 1));
    const inMemory = [...backlog.records()].length;
    const see = blind(world, (path) => path.endsWith('.spool'));
    const meanwhile = drain(backlog).ids;
    t.equal(meanwhile.length, inMemory);
    t.equal(backlog.size, 30 - inMemory);
    t.equal(backlog.unreadable, backlog.size);
    t.notOk(backlog.isLong, 'there is nothing to hurry for');
    t.equal(backlog.since, 0);
    backlog.beat();
    backlog.adopt();
    t.same(drain(backlog).ids, []);
    t.equal(world.logged.length, 1, 'told once');
    t.match(world.logged, [/cannot be read.*EMFILE/]);

    alive.delete('a');
    const heir = world.backlog('b');
    heir.adopt();
    const files = onDisk(world.folder).length;
    t.ok(heir.size > 1, 'each of its files has one record at least');
    t.equal(heir.since, 0, 'they may be of any month');
    t.same(drain(heir).ids, []);
    see();
    t.equal(heir.adopt(), 0);
    t.equal(heir.size, files);
    t.equal(heir.unreadable, 0);
    t.same(
      [...meanwhile, ...drain(heir).ids].sort((x, y) => x - y),
      range(0, 30),
    );
    t.equal(heir.size, 0);
    heir.close();
    t.same(readdirSync(world.folder), []);
  },
);

t.test(
  'of its own files it forgets those that are gone, and a stop leaves those that cannot be read',
  async (t) => {
    const world = bench(t);
    const backlog = world.backlog('a', { maxInMemory: 0, maxFileBytes: 1500 });
    for (let n = 0; n < 30; n++) backlog.append(records(n, n + 1));
    const [gone] = files(world.folder).sort() as [string];
    const lost = readLines(readFileSync(join(world.folder, gone))).length;
    rmSync(join(world.folder, gone));
    const see = blind(world, (path) => path.endsWith('.spool') && !path.endsWith(gone));
    t.same(drain(backlog).ids, []);
    t.match(world.logged.join(), /a file is gone/);
    t.equal(backlog.unreadable, 30 - lost);
    t.equal(backlog.close(), 30 - lost);
    see();
    const heir = world.backlog('b');
    t.equal(heir.adopt(), 30 - lost, 'taken over at once');
    t.same(
      drain(heir).ids.sort((x, y) => x - y),
      range(lost, 30),
    );
  },
);

t.test('files that an earlier version put aside are taken back', async (t) => {
  const { folder, backlog: open } = bench(t);
  open('a').append(records(0, 5));
  renameSync(join(folder, 'a/00000001.spool'), join(folder, 'a/00000001.spool.unreadable'));
  alive.delete('a');
  const backlog = open('b');
  t.equal(backlog.adopt(), 5);
  t.same(drain(backlog).ids, range(0, 5));
});

t.test('a take-over that fails in its middle is ended by a later beat', async (t) => {
  for (const fails of ['list', 'rename'] as const) {
    const world = bench(t);
    const dead = world.backlog('a', { maxFileBytes: 1 });
    for (let n = 0; n < 9; n++) dead.append(records(n, n + 1));
    alive.delete('a');
    const real = world.disk;
    const refuse = (is: boolean): void => {
      if (is) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
    };
    let failures = 2;
    world.disk = {
      ...real,
      list(path) {
        refuse(fails === 'list' && path.endsWith('b/a') && failures-- > 0);
        return real.list(path);
      },
      rename(from, to) {
        refuse(fails === 'rename' && from.endsWith('5.spool') && failures-- > 0);
        real.rename(from, to);
      },
    };
    const backlog = world.backlog('b');
    t.equal(backlog.adopt() + backlog.adopt() + backlog.adopt(), 9, fails);
    t.equal(world.logged.filter((line) => /EIO/.test(line)).length, 1, 'told once');
    t.same(
      drain(backlog).ids.sort((x, y) => x - y),
      range(0, 9),
    );
    backlog.close();
    t.same(readdirSync(world.folder), []);
  }
});

t.test(
  'what is no folder of a gateway, or may not be looked into, keeps nothing from being taken over',
  async (t) => {
    const { folder, logged, backlog: open } = bench(t);
    const dead = open('dead');
    writeFileSync(join(folder, 'a note'), 'a file');
    dead.append(records(0, 5));
    alive.delete('dead');
    const backlog = open('heir');
    t.equal(backlog.adopt(), 5);
    backlog.adopt();
    t.equal(logged.filter((line) => /a note.*ENOTDIR/.test(line)).length, 1, 'told once');
  },
);

t.test('a damaged record is reported and costs the others nothing', async (t) => {
  const { folder, backlog: open } = bench(t);
  open('a').append(records(0, 3));
  const path = join(folder, 'a', '00000001.spool');
  const lines = readFileSync(path, 'utf8').split('\n');
  lines[1] = (lines[1] as string).replace('0.5', '0.4');
  writeFileSync(path, lines.join('\n'));
  alive.delete('a');
  const backlog = open('b');
  backlog.adopt();
  t.match(drain(backlog), { ids: [0, 2], damaged: [/"cost_eur":0\.4/] });
});

t.test('a living process is left alone, and two adopters do not share', async (t) => {
  const { backlog: open } = bench(t);
  const a = open('a');
  a.append(records(0, 5));
  const [b, c] = [open('b'), open('c')];
  t.equal(b.adopt(), 0);
  alive.delete('a');
  t.same([b.adopt(), c.adopt()], [5, 0]);
  b.append(records(5, 6));
  alive.delete('b');
  t.equal(c.adopt(), 6, 'what the adopter had adopted too');
  t.same(
    drain(c).ids.sort((x, y) => x - y),
    range(0, 6),
  );
});

t.test(
  'one that cannot be looked up is dead after 30 s of silence, whatever the clocks say',
  async (t) => {
    const world = bench(t);
    const real = world.disk;
    world.disk = {
      ...real,
      // the test is faster than a file's time
      touch(path) {
        if (real.time(path) === null) return false;
        utimesSync(path, world.uptime, world.uptime);
        return true;
      },
    };
    const elsewhere = (name: string): Processes => ({
      self: { place: name, pid: 1, started: '' },
      isAlive: () => null,
    });
    const a = world.backlog('a', { processes: elsewhere('container a') });
    a.append(records(0, 5));
    const b = world.backlog('b', { processes: elsewhere('container b') });
    for (world.uptime = 0; world.uptime <= 120_000; world.uptime += 5000) {
      a.beat();
      if (b.adopt() !== 0) t.fail(`taken for dead at ${world.uptime}`);
    }
    const silentSince = world.uptime - 5000;
    while (b.adopt() === 0 && world.uptime < 300_000) world.uptime += 5000;
    t.ok(world.uptime - silentSince >= 30_000 && world.uptime - silentSince <= 40_000, 'adopted');
    t.equal(a.beat(), false, 'should it live on, it notices');
    a.append(records(5, 6));
    t.same(
      drain(a).ids,
      range(0, 6),
      'what it has in memory it writes too: the database takes each once',
    );
    t.same(drain(b).ids, range(0, 5));
  },
);

t.test('memory stays bounded; the rest waits on the disk and comes back in order', async (t) => {
  const { folder, backlog: open } = bench(t);
  const backlog = open('a', { maxInMemory: 50, maxFileBytes: 4000 });
  for (let n = 0; n < 1000; n += 5) backlog.append(records(n, n + 5));
  const kept = [...backlog.records()].length;
  t.ok(kept <= 50, `${kept} in memory`);
  t.equal(backlog.size, 1000);
  t.equal(backlog.since, 0);
  t.ok(files(folder).length > 10);
  const first: number[] = [];
  for (let n = 1000; n < 1100; n += 5) {
    const batch = backlog.next(20) as { records: readonly PendingRecord[] };
    first.push(...batch.records.map(({ requestId }) => Number(requestId.slice(-12))));
    backlog.settle(batch.records.length);
    if (first.length < 40)
      t.equal(backlog.since, first.length, 'the oldest still waits since it came');
    backlog.append(records(n, n + 5));
    const now = [...backlog.records()].length;
    if (now > 100) t.fail(`${now} in memory while it is drained`);
  }
  const { ids, cost } = drain(backlog);
  t.same([...first, ...ids], range(0, 1100));
  t.equal(cost, BigInt(ids.length) * 500_000_000_000_000n, 'read back with what they cost');
  t.ok(files(folder).length <= 1, 'and their files are gone');
});

t.test(
  'a disk that refuses is told loudly, loses nothing while the process lives, and is used again',
  async (t) => {
    const world = narrow(t);
    const backlog = world.backlog('a');
    backlog.append(records(0, 5));
    world.room = 0;
    backlog.append(records(5, 10));
    t.equal(backlog.spooling, false);
    t.match(world.logged.join(), /the disk refuses records.*ENOSPC/);
    backlog.append(records(10, 15));
    t.equal(world.logged.length, 1, 'once');
    world.room = Number.POSITIVE_INFINITY;
    backlog.append(records(15, 20));
    t.equal(backlog.spooling, true);
    t.same(drain(backlog).ids, range(0, 20));

    world.room = 0;
    for (let n = 0; n < 300; n += 10) backlog.append(records(n, n + 10));
    t.equal(
      backlog.lost,
      200,
      'with the database away too, memory is bounded, and what is lost is counted',
    );
    world.room = Number.POSITIVE_INFINITY;
    backlog.append(records(500, 501));
    t.same(drain(backlog).ids, [...range(0, 100), 500]);
  },
);

t.test('what the disk refused is on it once it takes records again', async (t) => {
  const world = narrow(t);
  const backlog = world.backlog('a', { maxFileBytes: 3000 });
  backlog.append(records(0, 1));
  world.room = 0;
  for (let n = 1; n < 40; n++) backlog.append(records(n, n + 1));
  t.equal(backlog.next(5)?.records.length, 1, 'a batch is on its way meanwhile');
  world.room = 5000;
  backlog.append(records(40, 41));
  t.same(onDisk(world.folder), range(0, 41));
  t.equal(backlog.spooling, true);
  const sizes = files(world.folder).map((name) => statSync(join(world.folder, name)).size);
  t.ok(Math.max(...sizes) < 3500, `in files that a later process can read one by one: ${sizes}`);
  t.equal(
    backlog.bytes,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  t.same(drain(backlog).ids, range(0, 41));
  backlog.close();
  t.same(readdirSync(world.folder), []);
});

t.test(
  'while the disk takes new records but not those it refused, spooling stays false',
  async (t) => {
    const world = narrow(t);
    const backlog = world.backlog('a');
    world.room = 0;
    for (let n = 0; n < 10; n++) backlog.append(records(n, n + 1));
    world.room = 1000; // room for a few
    backlog.append(records(10, 11));
    t.equal(backlog.spooling, false);
    t.same(onDisk(world.folder), [10], 'what was written of the rest is taken back');
    world.room = Number.POSITIVE_INFINITY;
    t.equal(backlog.beat(), true);
    t.same(
      onDisk(world.folder),
      range(0, 11),
      'they are tried again every few seconds, also while nobody calls',
    );
    t.equal(backlog.spooling, true);
    t.equal(world.logged.length, 2, `told once each: ${world.logged}`);

    world.room = 0;
    backlog.append(records(11, 12));
    world.room = 1000;
    backlog.append(records(12, 13));
    t.equal(backlog.spooling, true, 'a single one fits');
  },
);

t.test(
  'a disk that refused is tried again when the database took what waited and nobody calls',
  async (t) => {
    const world = narrow(t);
    const backlog = world.backlog('a');
    world.room = 0;
    backlog.append(records(0, 3));
    drain(backlog);
    backlog.beat();
    t.equal(backlog.spooling, false);
    world.room = Number.POSITIVE_INFINITY;
    backlog.beat();
    t.equal(backlog.spooling, true);
    t.match(world.logged.join(), /records reach the disk again/);
    t.same(files(world.folder), [], 'nothing is left of the attempts');
    backlog.append(records(3, 4));
    t.same(onDisk(world.folder), [3]);
  },
);

t.test(
  'the end writes what the disk refused, and counts as lost what it still refuses',
  async (t) => {
    for (const room of [0, 1000, 5000]) {
      const world = narrow(t);
      const backlog = world.backlog('a', { maxFileBytes: 2000 });
      backlog.append(records(0, 2));
      world.room = 0;
      for (let n = 2; n < 4; n++) backlog.append(records(n, n + 1));
      world.room = room;
      const kept = backlog.close();
      t.equal(kept, onDisk(world.folder).length, 'as many as are on the disk');
      t.equal(backlog.lost, 4 - kept);
      t.equal(kept, room === 0 ? 2 : 4);
    }
  },
);

t.test(
  'one that is taken for dead has its records on the disk again, in a folder of its own',
  async (t) => {
    for (const finds of ['an append', 'a beat']) {
      const world = bench(t);
      const backlog = world.backlog('a', { maxInMemory: 10, maxFileBytes: 1500 });
      for (let n = 0; n < 30; n++) backlog.append(records(n, n + 1));
      const kept = [...backlog.records()].length;
      t.ok(kept < 30, 'some are on the disk only');
      mkdirSync(join(world.folder, 'b'));
      renameSync(join(world.folder, 'a'), join(world.folder, 'b', 'a'));
      world.uptime = 40_000;
      const more = finds === 'a beat' ? 0 : 10;
      for (let n = 30; n < 30 + more; n++) backlog.append(records(n, n + 1));
      if (more > 0) t.equal(backlog.spooling, false, 'it has no folder until the next beat');
      t.equal(backlog.beat(), false, `told by the next beat, although ${finds} found it`);
      t.equal(backlog.beat(), true, 'once');
      t.equal(backlog.spooling, true);
      t.notMatch(world.logged.join(), /ENOENT/);
      const own = onDisk(join(world.folder, 'a-1'));
      t.equal(own.length, backlog.size, 'what it still has, it has on the disk');
      t.same(drain(backlog).ids, own);
      const late = own.filter((n) => n >= 30);
      t.same(
        late,
        range(30, 30 + more),
        'nothing went to a file that another process may have read and removed',
      );
      t.same(
        [...new Set([...onDisk(join(world.folder, 'b')), ...own])].sort((x, y) => x - y),
        range(0, 30 + more),
      );
    }
  },
);

t.test(
  'where the new folder cannot be made, a beat that can tells that the old one was taken',
  async (t) => {
    const world = bench(t);
    const real = world.disk;
    let full = false;
    world.disk = {
      ...real,
      write(path, text) {
        real.write(path, full ? '' : text); // the file is there, and empty
        if (full) throw new Error('ENOSPC: no space left on device');
      },
    };
    const backlog = world.backlog('a');
    backlog.append(records(0, 3));
    renameSync(join(world.folder, 'a'), join(world.folder, 'taken'));
    full = true;
    t.equal(backlog.beat(), true, 'nothing is given up yet');
    full = false;
    t.equal(backlog.beat(), false);
    t.same(onDisk(join(world.folder, 'a-1')), [0, 1, 2]);
  },
);

t.test(
  'with SPOOL_FSYNC the name of a new file is on the disk before its first record counts',
  async (t) => {
    const { folder } = bench(t);
    const synced: string[] = [];
    const real = { fsyncSync: fs.fsyncSync, fdatasyncSync: fs.fdatasyncSync };
    let refusal: string | null = null;
    const watch =
      (sync: (fd: number) => void) =>
      (fd: number): void => {
        const path = readlinkSync(`/proc/self/fd/${fd}`);
        synced.push(path.slice(folder.length));
        sync(fd);
        if (refusal !== null && path === folder)
          throw Object.assign(new Error(refusal), { code: refusal });
      };
    const patch = (
      fsyncSync: typeof fs.fsyncSync,
      fdatasyncSync: typeof fs.fdatasyncSync,
    ): void => {
      Object.assign(fs, { fsyncSync, fdatasyncSync });
      syncBuiltinESMExports();
    };
    patch(watch(real.fsyncSync), watch(real.fdatasyncSync));
    t.teardown(() => patch(real.fsyncSync, real.fdatasyncSync));
    const line = Buffer.from('a line\n');
    const use = (sync: boolean, name: string): string[] => {
      const disk = fileDisk(sync);
      disk.makeFolder(join(folder, name, 'own'));
      const file = disk.open(join(folder, name, 'own/1.spool'));
      for (let n = 0; n < 2; n++) file.append(line, line.length);
      file.close();
      return synced.splice(0);
    };
    t.same(
      use(true, 'a'),
      ['', '/a', '/a/own/1.spool', '/a/own', '/a/own/1.spool'],
      'the folder once',
    );
    t.same(use(false, 'b'), []);
    refusal = 'EINVAL';
    t.equal(use(true, 'c').length, 5, 'a file system that cannot do it is used without');
    refusal = 'EIO';
    t.throws(() => use(true, 'd'), /EIO/);
  },
);

t.test('a folder that cannot be written is an error at the start', async (t) => {
  const { folder, backlog: open } = bench(t);
  mkdirSync(join(folder, 'x'));
  writeFileSync(join(folder, 'a'), 'a file');
  t.throws(() => open('a'), /EEXIST|ENOTDIR/);
  t.throws(() => fileDisk(false).makeFolder('/proc/none/below'), /ENOENT/);
});

t.test('the system knows which processes live', async (t) => {
  const { self, isAlive } = systemProcesses();
  t.equal(isAlive(self), true);
  t.equal(isAlive({ ...self, started: 'earlier' }), false, 'a former process of the same id');
  t.equal(isAlive({ ...self, place: 'elsewhere' }), null);
  const { folder, disk, backlog } = bench(t);
  const processes = { self, isAlive };
  const left = backlog('a', { processes });
  left.append(records(0, 1));
  left.close();
  const owner = JSON.parse(disk.read(join(folder, 'a/owner.json')).toString()) as ProcessIdentity;
  t.not(owner.pid, self.pid, 'other processes look it up as well');
  t.equal(isAlive(owner), false, 'what was closed is dead, although its process lives');
  const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)']);
  await once(child, 'spawn');
  const other = { ...self, pid: child.pid as number, started: startOf(child.pid as number) };
  t.equal(isAlive(other), true);
  child.kill('SIGKILL');
  await once(child, 'exit');
  t.equal(isAlive(other), false);
});

function startOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] as string;
}

/** A world whose disk has so many bytes in all, of which a folder takes a block of 4 KiB. */
function small(t: Test, bytes: number): Bench {
  const world = bench(t);
  const real = world.disk;
  const take = (more: number): void => {
    const paths = readdirSync(world.folder, { recursive: true, encoding: 'utf8' }).map((name) =>
      join(world.folder, name),
    );
    const used = paths
      .map((path) => statSync(path))
      .map((stat) => (stat.isDirectory() ? 4096 : stat.size));
    const sum = used.reduce((sum, size) => sum + size, more);
    if (sum > bytes)
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  };
  world.disk = {
    ...real,
    makeFolder(path) {
      take(4096);
      real.makeFolder(path);
    },
    write(path, text) {
      take(text.length);
      real.write(path, text);
    },
    open(path): SpoolFile {
      const file = real.open(path);
      const append = (lines: Buffer, length: number): void => {
        take(length);
        file.append(lines, length);
      };
      return { ...file, append };
    },
  };
  return world;
}

t.test('a process starts on a disk that is full of what others left, and books it', async (t) => {
  for (const stops of [false, true]) {
    const world = small(t, 60_000);
    const first = world.backlog('a');
    for (let n = 0; first.spooling; n++) first.append([record(n)]);
    if (stops) first.close();
    alive.delete('a');
    const left = onDisk(world.folder);
    t.ok(left.length > 50);
    const second = world.backlog('b');
    second.adopt();
    t.same(drain(second).ids, left, stops ? 'after a stop' : 'after a crash');
  }
});
