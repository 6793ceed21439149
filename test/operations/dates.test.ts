import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOwnOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';

/** A date means the same by every way: a last day ends with it, and a first day begins with it, in the billing time zone. */

const office = await startOwnOffice(t, { BILLING_TIMEZONE: 'America/Havana' });
const { sql, databaseUrl: DATABASE_URL } = office;
const { company } = office.customer;
const tollgate = (...argv: string[]) => run([...argv, '--json'], { env: { DATABASE_URL } });

t.test(
  'the last day of a key and of a token, as a page, a command, a file and a program give it',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const token = await newToken(office);
    const at = `/companies/${company}/keys`;
    const key = () => ({
      id: crypto.randomUUID(),
      name: 'K',
      scope: ['chat'],
      claim: 'a'.repeat(43),
    });
    const { body: made } = await send(office, token, ['POST', at], { name: 'P', scopes: ['chat'] });
    const path = join(t.testdir({ text: `svc_${'t'.repeat(32)}` }), 'wanted.yml');
    const applied = (name: string, day: string, ...more: string[]) => {
      const entry = `{ name: ${name}, scopes: [chat], value: { file: ${t.testdirName}/text }, expires_at: ${day} }`;
      writeFileSync(
        path,
        `companies: [{ id: ${company}, name: Nordlicht Verlag, keys: [${entry}] }]`,
      );
      return run(['apply', path, ...more], {
        env: { DATABASE_URL, BILLING_TIMEZONE: 'America/Havana' },
      });
    };
    const ways: Readonly<Record<string, (day: string) => Promise<unknown>>> = {
      'page, key': (day) => owner.post(`${at}/create`, { ...key(), expires: day }),
      'page, token': (day) =>
        owner.post(`/companies/${company}/tokens`, { name: 'K', access: 'read', expires: day }),
      'key create': (day) =>
        tollgate(
          'key',
          'create',
          '--company',
          company,
          '--name',
          'K',
          '--scope',
          'chat',
          '--expires',
          day,
        ),
      'key set': (day) => tollgate('key', 'set', made.id, '--expires', day),
      'token create': (day) => tollgate('token', 'create', '--name', 'K', '--expires', day),
      apply: (day) => applied('A', day),
      'apply, again': (day) => applied('A', day),
      POST: (day) =>
        send(office, token, ['POST', at], { name: 'K', scopes: ['chat'], expires_at: day }),
      PATCH: (day) => send(office, token, ['PATCH', `${at}/${made.id}`], { expires_at: day }),
      onboard: (day) =>
        send(office, token, ['POST', '/companies/onboard'], {
          name: 'O',
          key: { name: 'K', scopes: ['chat'], expires_at: day },
        }),
    };
    for (const [day, end] of [
      ['2030-01-01', '2030-01-02T05:00:00.000Z'],
      ['2027-11-06', '2027-11-07T04:00:00.000Z'], // the midnight behind it comes twice
      ['2028-02-29', '2028-03-01T05:00:00.000Z'],
    ] as const) {
      for (const [way, give] of Object.entries(ways)) {
        await sql`update api_keys set expires_at = null where name <> 'A'`;
        await sql`delete from admin_tokens where name = 'K'`;
        await give(day);
        const rows = await sql<{ at: Date }[]>`
        select expires_at as at from api_keys where expires_at is not null and (name = 'A') = ${way.startsWith('apply')}
        union all select expires_at from admin_tokens where name = 'K'`;
        t.same(
          rows.map(({ at }) => at.toISOString()),
          [end],
          `${way}: ${day}`,
        );
      }
      t.match(await applied('A', day, '--dry-run'), { code: 0, out: 'Nothing to change.\n' });
    }
    t.match(await tollgate('key', 'set', made.id, '--expires', '2030-02-30'), { code: 64 });
    for (const expires_at of ['2030-02-30', '2030-13-01', 'tomorrow'])
      t.match(await send(office, token, ['PATCH', `${at}/${made.id}`], { expires_at }), {
        status: 400,
      });
    t.match(
      await send(office, token, ['PATCH', `${at}/${made.id}`], {
        expires_at: '2030-01-01T12:00:00+01:00',
      }),
      {
        body: { expires_at: '2030-01-01T11:00:00.000Z' },
      },
    );
  },
);

t.test('a key works on its last day, and a day that is over is refused', async (t) => {
  const [{ today, yesterday }] = await sql<[{ today: string; yesterday: string }]>`
    select ((now() at time zone 'America/Havana')::date)::text as today, ((now() at time zone 'America/Havana')::date - 1)::text as yesterday`;
  const create = (day: string) =>
    tollgate(
      'key',
      'create',
      '--company',
      company,
      '--name',
      'Today',
      '--scope',
      'chat',
      '--expires',
      day,
    );
  t.match(await create(today), { code: 0, json: { state: 'active' } });
  t.match(await create(yesterday), { code: 1, err: /would never work: give a later time/ });
});

t.test('events since a day are those since its beginning', async (t) => {
  await sql`update events set at = '2026-11-01T04:00:00Z'`;
  const since = async (day: string) =>
    (await tollgate('event', 'list', '--since', day)).json.length > 0;
  t.ok(await since('2026-11-01'), 'its first midnight');
  t.notOk(await since('2026-11-02'));
  await sql`update events set at = '2026-11-01T03:59:59Z'`;
  t.notOk(await since('2026-11-01'), 'though it is that day in UTC');
});
