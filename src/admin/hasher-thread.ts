import { scryptSync } from 'node:crypto';
import { constants, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';

/** The thread behind hasher.ts: derives one key per message, and yields to everything else. */

// On Linux this is the priority of the calling thread; elsewhere it would be that of the whole
// process. A tenth of the API's share of a busy core: people still get in.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

parentPort?.on('message', ({ password, salt, length, options }) => {
  parentPort?.postMessage(scryptSync(password, salt, length, options));
});
