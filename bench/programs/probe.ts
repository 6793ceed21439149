import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Loaded into a gateway by `--import`; costs nothing until it is asked over IPC. `pause-start` and `pause-stop`
 * bound a time whose longest event-loop pause is wanted. `gc` collects garbage, so that resident memory shows
 * what is in use.
 */
export type ProbeOrder = 'pause-start' | 'pause-stop' | 'gc';

const RESOLUTION_MS = 1; // part of each reading
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

process.on('message', (order: ProbeOrder) => {
  if (order === 'gc') {
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')();
  } else if (order === 'pause-start') {
    delay.reset();
    delay.enable();
  } else delay.disable();
  process.send?.({ pauseMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS) });
});
process.channel?.unref();
