import { once } from 'node:events';
import { get, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { cheapHash, PASSWORD, Person } from '../admin/people.ts';
import { metric } from './gateway.ts';
import { startLoad } from './load.ts';
import { faultWorld } from './world.ts';

/**
 * What visitors of the pages do, callers of the API and other visitors do not feel. RESULTS.md has the figures.
 */

const FIELDS = 520_000; // of a form of 1 MB
const MOST_BYTES = 300_000; // of a page
/** CPU time of the API's process beside its calls. When it made the pages itself, each part took 2 to 4 s. */
const CPU_SECONDS = 0.5;
const VIEWS = 3; // of each list
const STRANGER_AT_ONCE = 300;
const STRANGER_PER_MS = 117 / 1000; // afterwards
const PAGES = 40; // of the owner meanwhile

const OPERATOR = 'olga@tollgate.example';
const OWNER = 'owen@customer.example';

const world = await faultWorld(t);
const gateway = await world.gateway();
const base = `/companies/${world.company}`;
const hash = cheapHash(PASSWORD);
await world.sql`insert into users (email, role, company_id, password_hash)
  values (${OPERATOR}, 'operator', null, ${hash}), (${OWNER}, 'owner', ${world.company}, ${hash})`;

async function signedIn(email: string): Promise<Person> {
  const person = new Person(gateway.adminUrl);
  await person.signIn(email);
  return person;
}

const cookieOf = ({ cookies }: Person) =>
  [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');

/** Works while a company calls the API, one call after the other, and tells what the gateway computed meanwhile. */
async function besideCalls<T>(
  work: () => Promise<T>,
): Promise<{ result: T; cpuSeconds: number; calls: number; failed: number; longestMs: number }> {
  const load = startLoad({
    urls: () => [gateway.url],
    key: world.key,
    workers: 1,
    kinds: ['plain'],
    restMs: 20,
  });
  await load.more(5, 'calls before');
  const began = await metric(gateway, 'process_cpu_seconds_total');
  const result = await work();
  const cpuSeconds = (await metric(gateway, 'process_cpu_seconds_total')) - began;
  const journal = await load.stop();
  return {
    result,
    cpuSeconds,
    calls: journal.length,
    failed: journal.filter(({ status }) => status !== 200).length,
    longestMs: Math.max(...journal.map(({ at, endedAt }) => endedAt - at)),
  };
}

t.test('a form of half a million fields takes nothing from the API', async (t) => {
  const owner = await signedIn(OWNER);
  const body = `csrf=${await owner.csrf()}${'&a'.repeat(FIELDS)}`;
  const headers = {
    cookie: cookieOf(owner),
    origin: gateway.adminUrl,
    'content-type': 'application/x-www-form-urlencoded',
  };
  const post = () =>
    fetch(`${gateway.adminUrl}${base}/assistants/new`, {
      method: 'POST',
      redirect: 'manual',
      headers,
      body,
    });
  const { result, cpuSeconds, calls, failed, longestMs } = await besideCalls(
    async () => (await post()).status,
  );
  t.comment(
    `form: ${result}; ${cpuSeconds.toFixed(2)} s of CPU; the longest of ${calls} calls took ${longestMs} ms`,
  );
  t.equal(result, 413, 'the form is refused');
  t.equal(failed, 0, 'no call is');
  t.ok(cpuSeconds < CPU_SECONDS, `${cpuSeconds} s of CPU`);
});

t.test('lists of 10,000 keys and of 20,000 companies take nothing from the API', async (t) => {
  await world.sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`; // without the triggers that audit and tell of changes
    await sql`insert into companies (name) select 'Company ' || i from generate_series(1, 20000) as i`;
    await sql`
      insert into api_keys (line, company_id, name, digest, prefix, scopes, created_by)
      select gen_random_uuid(), ${world.company}, 'Key ' || i, sha256(('key ' || i)::bytea), 'svc_' || left(md5(i::text), 4),
        '{chat,embeddings,assistants}', ${OWNER} from generate_series(1, 10000) as i`;
  });
  const operator = await signedIn(OPERATOR);
  for (const path of [`${base}/keys`, '/companies']) {
    const { result, cpuSeconds, calls, failed, longestMs } = await besideCalls(async () => {
      const pages = [];
      for (let view = 0; view < VIEWS; view++) pages.push(await operator.get(path));
      return pages;
    });
    const bytes = Math.max(...result.map(({ text }) => Buffer.byteLength(text)));
    const mb = (await metric(gateway, 'process_resident_memory_bytes')) / 2 ** 20;
    t.comment(
      `${path}: ${bytes} bytes; ${VIEWS} views: ${cpuSeconds.toFixed(2)} s of CPU; the longest of ${calls} calls took ${longestMs} ms; ${mb.toFixed(0)} MB resident`,
    );
    t.same(
      result.map(({ status }) => status),
      Array(VIEWS).fill(200),
      'the list is shown',
    );
    t.ok(bytes < MOST_BYTES, `${bytes} bytes`);
    t.equal(failed, 0, 'no call failed');
    t.ok(cpuSeconds < CPU_SECONDS, `${cpuSeconds} s of CPU`);
  }
});

t.test("a stranger who asks 117 times a second closes nobody else's pages", async (t) => {
  const headers = { cookie: cookieOf(await signedIn(OWNER)) };
  // each on a connection of its own: an idle one may be closed just when it is used
  const ask = async (headers: OutgoingHttpHeaders = {}): Promise<number | undefined> => {
    const request = get(`${gateway.adminUrl}${base}/settings`, { agent: false, headers });
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode;
  };
  let refused = 0;
  let asking = true;
  const answers: Promise<unknown>[] = [];
  const stranger = (async () => {
    const began = performance.now();
    for (; asking; await sleep(5)) {
      const due = STRANGER_AT_ONCE + (performance.now() - began) * STRANGER_PER_MS;
      while (answers.length < due)
        answers.push(ask().then((status) => status === 503 && refused++));
    }
  })();
  const pages: (number | undefined)[] = [];
  while (pages.length < PAGES) {
    pages.push(await ask(headers));
    await sleep(50); // paced as a person is
  }
  asking = false;
  await stranger;
  await Promise.all(answers);
  const shown = pages.filter((status) => status === 200).length;
  t.comment(
    `${refused} of ${answers.length} requests of the stranger refused; ${shown} of ${pages.length} pages shown`,
  );
  t.ok(refused > 0, 'the stranger is refused');
  t.equal(shown, pages.length, 'the owner never');
});
