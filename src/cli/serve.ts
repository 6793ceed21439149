import { type App, openApp } from '../app.ts';
import type { Config } from '../config.ts';
import type { Welcome } from '../demo/first-run.ts';
import { NO_OPERATOR } from '../domain/wording/start-notice.ts';
import type { EngineOptions } from '../engine.ts';
import { faultFields, flushLog, type Logger, openLog } from '../log.ts';
import { collectYoung, reclaimAtRest } from '../runtime/collection.ts';
import { tuneHeap } from '../runtime/heap.ts';
import { DatabaseUnavailable } from '../store/connection/errors.ts';
import { hasOperator } from '../store/users/user.ts';
import type { Output } from './frame/command.ts';

const DEFAULT_DATA_DIR = './data';
const OPERATOR_MS = 5000;
/** In place of a signal. */
const FAULT = 'fault';

/**
 * `tollgate serve`: runs until SIGTERM or SIGINT, then lets open requests finish and returns. With several workers
 * this process supervises them, and SIGHUP replaces them; otherwise SIGHUP is as SIGTERM.
 * @param demo create a demo company and print a key that works, or how to get in again (`make run`)
 * @param announce takes the addresses, and a key and password that are shown only once
 * @param greet what is announced in place of that, once it serves; `stop` aborts with the first signal
 * @returns the exit code: 0 when every usage record was written, 1 otherwise
 * @throws when the gateway cannot start; the message says what to do
 */
export async function serve(
  config: Config,
  demo: boolean,
  announce: (started: Output) => void,
  greet?: (app: App, stop: AbortSignal) => Promise<Output>,
): Promise<number> {
  const workers = await workersOf(config);
  if (workers === null) tuneHeap();
  let app: App | null = null;
  const stop = stopSignal(
    workers === null ? ['SIGTERM', 'SIGINT', 'SIGHUP'] : ['SIGTERM', 'SIGINT'],
    () => app?.kill?.(),
  );
  const log = openLog(config.logLevel);
  const fault = unattributed(log, () => app?.kill?.());
  if (workers !== null) process.on('SIGHUP', () => void app?.replace?.());
  const starting = new AbortController();
  void stop.then(() => starting.abort());
  const firstRun = demo ? await import('../demo/first-run.ts') : null;
  const options = { prepare: firstRun?.prepareDemo, stop: starting.signal };
  try {
    app = await (workers === null
      ? openApp(config, log, { ...options, collectYoung })
      : workers(log, options));
  } catch (error) {
    if (!(starting.signal.aborted && error instanceof DatabaseUnavailable)) throw error;
    log.info({ signal: await stop }, 'stopped before it served');
    await flushLog(log);
    return 0;
  }
  try {
    await app.listen();
    if (greet === undefined) {
      const greeting = firstRun === null ? null : await firstRun.welcome(app.db, config.keyPrefix);
      announce({ json: facts(app, greeting), text: banner(app, greeting, config) });
    } else announce(await greet(app, starting.signal));
  } catch (error) {
    if (!starting.signal.aborted) {
      await app.close();
      throw error;
    } // a stop while it greets is a stop
  }
  await tellOfOperator(app, log);
  reclaimAtRest();
  log.info({ api: app.apiUrl, admin: app.adminUrl }, 'serving');
  const signal = await Promise.race([stop, fault]);
  const { drainSeconds: seconds, drainDelaySeconds: delay } = config;
  log.info({ signal, ...(delay > 0 && { delay }), seconds }, 'draining');
  const cut = await app.drain(seconds, delay);
  if (cut > 0) log.warn({ connections: cut }, 'open requests did not finish in time and were cut');
  const lost = await app.close();
  if (lost !== null && lost > 0) log.error({ records: lost }, 'usage records could not be written');
  log.info({ signal, lost }, 'stopped');
  await flushLog(log);
  return lost === 0 && signal !== FAULT ? 0 : 1;
}

/** Says where there are pages, and nobody who could sign in to them. */
async function tellOfOperator(app: App, log: Logger): Promise<void> {
  if (app.adminUrl === null) return;
  const found = await app.db.run(OPERATOR_MS, hasOperator).catch(() => true); // the log tells of the database otherwise
  if (!found)
    log.warn({ command: NO_OPERATOR.command }, `${NO_OPERATOR.text} Make one with the command`);
}

/** Opens several workers; null: there is one, and this process is it. The code for several is loaded only where they are. */
async function workersOf(
  config: Config,
): Promise<((log: Logger, options: EngineOptions) => Promise<App>) | null> {
  if (config.workers === 1) return null;
  const { countWorkers, openWorkers } = await import('../workers/open.ts');
  const count = countWorkers(config);
  return count === 1 ? null : (log, options) => openWorkers(config, log, count, options);
}

/**
 * Resolves where something is thrown that belongs to no request and no connection. Nobody knows then what is left undone,
 * so the process does not go on as if nothing were: it lets open requests finish and is started again. A second fault
 * ends it at once. @param kill called just before
 */
function unattributed(log: Logger, kill: () => void): Promise<typeof FAULT> {
  return new Promise((resolve) => {
    let faults = 0;
    process.on('uncaughtException', (error) => {
      log.fatal(faultFields(error), 'a fault that belongs to no request: the gateway stops');
      if (faults++ === 0) return resolve(FAULT);
      kill();
      process.exit(1); // which writes the log
    });
  });
}

/** Resolves with the first of these signals; a second one ends the process at once. @param kill called just before */
function stopSignal(signals: readonly NodeJS.Signals[], kill: () => void): Promise<string> {
  return new Promise((resolve) => {
    let signalled = false;
    for (const signal of signals) {
      process.on(signal, () => {
        if (signalled) {
          kill();
          process.exit(1);
        }
        signalled = true;
        resolve(signal);
      });
    }
  });
}

function facts(app: App, greeting: Welcome | null): object {
  const { first = null, operator = null, companyId = null } = greeting ?? {};
  return {
    base_url: app.apiUrl,
    socket: app.apiSocket,
    admin_url: app.adminUrl,
    demo_upstream: app.demo,
    company_id: companyId,
    key: first?.key ?? null,
    login: first?.login ?? null,
    operator,
  };
}

function banner(app: App, greeting: Welcome | null, config: Config): string {
  const first = greeting?.first ?? null;
  const lines = ['', 'Tollgate is serving.', ''];
  const row = (name: string, value: string): number => lines.push(`  ${name.padEnd(11)} ${value}`);
  row('Base URL', app.apiUrl);
  if (app.apiSocket !== null) row('Socket', app.apiSocket);
  if (first !== null) row('API key', `${first.key}   (shown only now)`);
  if (app.adminUrl !== null) row('Admin URL', app.adminUrl);
  if (first?.login)
    row('Login', `${first.login.email}   ${first.login.password}   (shown only now)`);
  if (app.demo) {
    lines.push(
      '',
      '  DEMO UPSTREAM: answers are made up here. Set UPSTREAM_URL to reach real models.',
    );
  }
  if (first !== null) {
    const curl = app.apiSocket === null ? 'curl' : `curl --unix-socket '${app.apiSocket}'`;
    lines.push(
      '',
      '  Try it:',
      '',
      `  ${curl} ${app.apiUrl}/chat/completions -H 'Authorization: Bearer ${first.key}' -H 'Content-Type: application/json' -d '{"model":"demo-chat","messages":[{"role":"user","content":"Hello"}]}'`,
    );
  } else if (greeting !== null) lines.push(...waysIn(app, greeting, config));
  return `${lines.join('\n')}\n`;
}

/** The message of a later start. Keys and passwords are shown once, and stored nowhere. */
function waysIn(app: App, { companyId, operator }: Welcome, config: Config): string[] {
  // the command finds the database by the same variables
  const { databaseUrl, dataDir } = config;
  const folder =
    databaseUrl !== null || dataDir === DEFAULT_DATA_DIR ? '' : `DATA_DIR=${shellQuoted(dataDir)} `;
  const tollgate = `${folder}npx tollgate`;
  const password =
    operator === null
      ? `${tollgate} user create --role operator --email operator@localhost --password-stdin`
      : `${tollgate} user set-password --email ${shellQuoted(operator)} --password-stdin`;
  return [
    '',
    `  Sign in as ${operator ?? 'an operator'}. The password was shown at the first start; this sets a new one:`,
    '',
    `  ${password}`,
    ...(companyId === null
      ? []
      : [
          '',
          `  A new key${app.adminUrl === null ? '' : `, also on ${app.adminUrl}/companies/${companyId}/keys`}:`,
          '',
          `  ${tollgate} key create --company ${companyId} --name 'my key' --scope chat --scope embeddings --scope assistants`,
        ]),
    ...(databaseUrl === null ? [] : ['', '  Commands need the DATABASE_URL of this start.']),
  ];
}

function shellQuoted(text: string): string {
  return /^[\w@./+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
