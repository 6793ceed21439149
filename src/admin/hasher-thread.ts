import { scryptSync } from 'node:crypto';
import { constants, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';

/** The thread behind hasher.ts: derives one key per message, and yields to everything else. */

// on Linux this is the priority of the calling thread; elsewhere it would be that of the whole process
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_LOW);

parentPort?.on('message', ({ password, salt, length, options }) => {
  parentPort?.postMessage(scryptSync(password, salt, length, options));
});
