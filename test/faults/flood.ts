/**
 * A company, or a stranger, that asks for all it can get: `fork(flood.ts, [URL, CONNECTIONS, MODEL, KEY])`. Each
 * connection asks again as soon as it is answered. Without KEY each request brings a key that does not exist. Tells
 * the parent how often it got each status whenever the parent sends anything, and ends with the parent.
 */
import { randomBytes } from 'node:crypto';
import { setPriority } from 'node:os';
import { Connection, parseAddress, requestBytes } from '../../bench/load/connection.ts';
import { newTally } from '../../bench/load/tally.ts';

setPriority(19); // a real flood does not take the processor of those who measure it
const [url = '', connections = '', model = '', key] = process.argv.slice(2);
const address = parseAddress(url);
const tally = newTally();
const body = Buffer.from(
  JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }], stream: true }),
);
const request = (key: string): Buffer =>
  requestBytes(address, { authorization: `Bearer ${key}` }, body);
const known = key === undefined ? null : request(key);

for (let n = 0; n < Number(connections); n++) {
  const connection = new Connection(address, tally);
  const next = (): void =>
    connection.send(known ?? request(`svc_${randomBytes(16).toString('hex')}`), () =>
      setImmediate(next),
    );
  next();
}
process.on('message', () => process.send?.(Object.fromEntries(tally.statuses)));
process.on('disconnect', () => process.exit());
