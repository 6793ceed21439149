import { pino } from 'pino';
import t from 'tap';
import { WorkerProcess } from '../../src/workers/worker-process.ts';

const START = {
  worker: 1,
  databaseUrl: null,
  upstreamUrl: null,
  maxConnections: 100,
  maxRequests: 1,
  maxMemoryBytes: 1,
  ticketKeys: '',
};

t.test(
  'a worker that never gets ready is killed as late as any other, and holds up no stop',
  async (t) => {
    const worker = new WorkerProcess(START, pino({ level: 'silent' }));
    t.teardown(() => worker.kill());
    process.kill(worker.pid as number, 'SIGSTOP'); // as if it waited for the database
    await worker.leave(-15); // the 15 s beside its requests are over at once
    t.same(await worker.ended, { code: null, signal: 'SIGKILL' });
  },
);
