import { setPriority } from 'node:os';
import { pino } from 'pino';
import { servePages } from './pages-server.ts';
import type { PagesMessage, PagesSettings } from './process/settings.ts';

/** The process of the administration pages. The gateway starts it, tells it its settings, and ends it. */

const NICENESS = 5; // on a busy core it gets a third of the API's share

setPriority(NICENESS);
process.once('disconnect', () => process.exit()); // the gateway has ended, however it did
// a terminal and some supervisors signal all processes; the gateway still drains then
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
process.once('message', (settings: PagesSettings) => void serve(settings));

async function serve(settings: PagesSettings): Promise<void> {
  const log = pino({ level: settings.logLevel, base: null }, { write: (line) => tell({ line }) });
  process.once('uncaughtException', (error) => {
    log.error({ reason: error.stack }, 'admin: an error that nothing handles');
    process.exitCode = 1;
    process.disconnect?.(); // ends the process once the line is sent
  });
  const { port } = await servePages(settings, log);
  tell({ port });
}

function tell(message: PagesMessage): void {
  if (process.connected) process.send?.(message);
}
