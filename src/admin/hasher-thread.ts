import { scryptSync } from 'node:crypto';
import { constants, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';

/** The thread of hasher.ts: derives one key per message, at low priority. */

// On Linux this sets the priority of the thread, elsewhere that of the whole process. On a busy
// core the thread gets a tenth of the API's share, which is enough to sign in.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

parentPort?.on('message', ({ password, salt, length, options }) => {
  parentPort?.postMessage(scryptSync(password, salt, length, options));
});
