import type { ChildProcess } from 'node:child_process';

/** How a process ended; with a reason, it could not be started. */
export type ProcessEnd =
  | { readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly reason: string };

/**
 * Resolves when a process that was just started has ended, or when it could not be started.
 * @param event `close` comes when its last messages have arrived, and never after this side closed the channel
 */
export function endOf(child: ChildProcess, event: 'exit' | 'close'): Promise<ProcessEnd> {
  const { promise, resolve } = Promise.withResolvers<ProcessEnd>();
  child.on('error', ({ message }) => {
    // otherwise it is about a message to a process that just ended: the event follows
    if (child.pid === undefined) resolve({ reason: message });
  });
  child.once(event, (code, signal) => resolve({ code, signal }));
  return promise;
}
