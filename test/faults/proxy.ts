import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { parseDatabaseUrl } from '../../src/store/connection/address.ts';
import type { Life } from './world.ts';

/** A way to the database with faults on request. */
export interface FaultProxy {
  /** The database's address, by way of the proxy. */
  readonly url: string;
  /** Open connections stay, and nothing ever moves on them again; new ones work. */
  halfOpen(): void;
  /** Nothing moves, on open and new connections, until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** Breaks every open connection. */
  cut(): void;
  /** Of the batches sent from now on, this share is carried out but its answer lost with the connection. */
  loseAnswers(share: number): void;
  /** Of a command of one coordinator to another server, this share is lost with its connection, or its answer is. */
  loseStep(share: number, step: TwoPhaseStep, what: 'command' | 'answer'): void;
  /** Commands and answers lost so far. */
  readonly lost: number;
}

/** What ends a transaction over several servers; the answer names the command. */
export type TwoPhaseStep = 'PREPARE TRANSACTION' | 'COMMIT PREPARED';

const BATCH = { command: 'book_usage', answer: 'SELECT' };

/** Forwards to the database of a URL; closed at teardown. */
export async function startFaultProxy(life: Life, url: string): Promise<FaultProxy> {
  const { targets, user = '', password = '', database = '' } = parseDatabaseUrl(url);
  const target = targets[0] as { path: string } | { host: string; port: number };
  const pairs = new Set<{ client: Socket; server: Socket }>();
  let frozen = false;
  let share = 0;
  /** Text of the commands that are lost or whose answers are, and of those answers. */
  let command = BATCH.command;
  let answer = BATCH.answer;
  let losesCommand = false;
  let lost = 0;

  const listener = createServer((client) => {
    const server = 'path' in target ? connect(target.path) : connect(target.port, target.host);
    const pair = { client, server };
    pairs.add(pair);
    let doomed = false;
    const end = (): void => {
      pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    client.on('data', (data) => {
      if (share > 0 && data.includes(command) && Math.random() < share) doomed = true;
      if (doomed && losesCommand) {
        lost += 1;
        end();
      } else server.write(data);
    });
    server.on('data', (data) => {
      // the answer to the statement's description comes first; the batch is done when "ready" follows its completion
      if (doomed && data.includes(answer)) {
        lost += 1;
        end();
      } else client.write(data);
    });
    for (const socket of [client, server]) socket.on('error', end).on('close', end);
    if (frozen) for (const socket of [client, server]) socket.pause();
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const all = (): Socket[] => [...pairs].flatMap(({ client, server }) => [client, server]);
  life.teardown(() => {
    listener.close();
    for (const socket of all()) socket.destroy();
  });

  return {
    url: `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`,
    halfOpen() {
      for (const { client, server } of pairs) {
        client.removeAllListeners('data').pause();
        server.removeAllListeners('close').destroy();
      }
    },
    freeze() {
      frozen = true;
      for (const socket of all()) socket.pause();
    },
    thaw() {
      frozen = false;
      for (const socket of all()) socket.resume();
    },
    cut() {
      for (const socket of all()) socket.destroy();
    },
    loseAnswers(next) {
      share = next;
      ({ command, answer } = BATCH);
      losesCommand = false;
    },
    loseStep(next, step, what) {
      share = next;
      command = step;
      answer = step;
      losesCommand = what === 'command';
    },
    get lost() {
      return lost;
    },
  };
}
