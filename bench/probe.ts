import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Loaded into the gateway by `--import` while it is measured; costs nothing until asked. Answers
 * over IPC: `pause-start` and `pause-stop` bound a time whose longest event-loop pause is wanted,
 * `gc` collects garbage, so that resident memory shows what is held rather than what lies about.
 */
const delay = monitorEventLoopDelay({ resolution: 1 });

process.on('message', (message: unknown) => {
  if (message === 'pause-start') {
    delay.reset();
    delay.enable();
    process.send?.({});
  } else if (message === 'pause-stop') {
    delay.disable();
    // the timer's own millisecond is part of each reading
    process.send?.({ pauseMs: Math.max(0, delay.max / 1e6 - 1) });
  } else if (message === 'gc') {
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')();
    process.send?.({});
  }
});
process.channel?.unref();
