import t from 'tap';
import { browserName } from '../../../src/domain/wording/browser-name.ts';
import { type Office, PASSWORD, Person, startOffice, textOf } from '../people.ts';

/** The list of one's own sessions, and ending them. */

const office = await startOffice(t);
const { sql } = office;
const { owner, administrator } = office.people;
const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1';

async function signIn(email: string, agent: string, of: Office = office): Promise<Person> {
  const person = new Person(of.adminUrl);
  await person.post('/sign-in', { email, password: PASSWORD }, { 'user-agent': agent });
  return person;
}

const isLive = async (person: Person) => (await person.get('/account')).status === 200;

t.test(
  'it tells browsers in plain words, when each began and was used, and which is this one',
  async (t) => {
    const desk = await signIn(owner, FIREFOX);
    const phone = await signIn(owner, IPHONE);
    await signIn(administrator, 'curl/8.0');
    await sql`update sessions set last_seen_at = now() - interval '40 minutes' where browser like 'Safari%'`;
    const text = textOf(await desk.get('/account'));
    t.match(text, /Firefox on Windows this one .*Safari on iPhone /);
    t.match(text, /40 minutes ago/);
    t.notMatch(text, /a browser that is not known/i, 'nobody else’s');
    const [{ all }] = await sql<[{ all: string }]>`select json_agg(s)::text as all from sessions s`;
    t.notMatch(
      all,
      /Gecko|Mozilla|127\.0\.0\.1/,
      'neither the whole user-agent nor the address is kept',
    );
    t.ok(await isLive(phone));
  },
);

t.test('one is ended, or all others, and never those of somebody else', async (t) => {
  const desk = await signIn(owner, FIREFOX);
  const [phone, tablet] = [
    await signIn(owner, IPHONE),
    await signIn(owner, IPHONE.replace('iPhone; CPU iPhone OS', 'iPad; CPU OS')),
  ];
  const other = await signIn(administrator, FIREFOX);
  const idOf = async (browser: string, email: string) =>
    (
      await sql`select s.id from sessions s join users u on u.id = user_id where browser = ${browser} and email = ${email}
      order by s.created_at desc`
    )[0]?.id as string;
  await desk.post(`/account/sessions/${await idOf('Firefox on Windows', administrator)}/sign-out`);
  t.ok(await isLive(other));
  const ended = await desk.post(
    `/account/sessions/${await idOf('Safari on iPhone', owner)}/sign-out`,
  );
  t.equal(ended.headers.get('location'), '/account?done=session-ended');
  t.notOk(await isLive(phone));
  t.ok(await isLive(tablet));
  t.equal((await desk.post('/account/sessions/sign-out-others')).status, 303);
  t.notOk(await isLive(tablet));
  t.ok(await isLive(desk));
  t.ok(await isLive(other));
  t.notMatch((await desk.get('/account')).text, 'Sign out of all others');
});

t.test('names of browsers are those that people know', async (t) => {
  const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0';
  for (const [agent, name] of [
    [`Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${chrome} Safari/537.36`, 'Chrome on macOS'],
    [
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Safari/537.36 Edg/141.0.0.0`,
      'Edge on Windows',
    ],
    [`Mozilla/5.0 (Windows NT 10.0) ${chrome} Safari/537.36 OPR/120.0.0.0`, 'Opera on Windows'],
    [`Mozilla/5.0 (Linux; Android 10; K) ${chrome} Mobile Safari/537.36`, 'Chrome on Android'],
    [
      `Mozilla/5.0 (Linux; Android 14; SM-S921B) SamsungBrowser/28.0 ${chrome} Mobile Safari/537.36`,
      'Samsung Internet on Android',
    ],
    [`Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${chrome} Safari/537.36`, 'Chrome on ChromeOS'],
    ['Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0', 'Firefox on Linux'],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) AppleWebKit/605.1.15 CriOS/141.0 Mobile/15E148 Safari/604.1',
      'Chrome on iPhone',
    ],
    [FIREFOX, 'Firefox on Windows'],
    [IPHONE, 'Safari on iPhone'],
    ['Firefox/1.0', 'Firefox'],
    ['curl/8.0', null],
    ['', null],
    [`${'('.repeat(8000)}Version/`, null],
  ] as const) {
    t.equal(browserName(agent), name, agent.slice(0, 60));
  }
});
