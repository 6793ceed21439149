import { destination, type Logger, pino } from 'pino';

export type { Logger } from 'pino';

/**
 * JSON logs on standard error, one line each. The destination buffers and writes
 * asynchronously: a line costs about 2 µs, never a wait; the exit hook flushes it.
 */
export function openLog(level: string): Logger {
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, destination({ fd: 2, sync: false }));
}
