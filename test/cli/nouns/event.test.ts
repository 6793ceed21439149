import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type EventRow, eventStore } from '../../../src/store/events/event.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const store = eventStore(db, db);

t.test(
  'every command that changes keys is told; list shows what became of it, replay sends it again',
  async (t) => {
    t.match(await tollgate('event', 'list'), { code: 0, out: 'There are no such events.\n' });
    const { json: acme } = await tollgate('company', 'create', '--name', 'ACME', '--json');
    const create = [
      'key',
      'create',
      '--company',
      acme.id,
      '--name',
      'Website',
      '--scope',
      'chat',
      '--json',
    ];
    const { json: key } = await tollgate(...create);
    const { json: second } = await tollgate('key', 'rotate', key.id, '--overlap', '7d', '--json');
    const { json: third } = await tollgate('key', 'rotate', second.id, '--leaked', '--json');
    await tollgate('key', 'revoke', third.id);
    await tollgate('company', 'close', acme.id);
    const kinds = async (...more: string[]) =>
      (await tollgate('event', 'list', ...more, '--json')).json.map(
        ({ event }: { event: { type: string } }) => event.type,
      );
    const all = [
      'key.created',
      'key.rotated',
      'key.revoked',
      'key.rotated',
      'key.revoked',
      'company.closed',
    ];
    t.same(await kinds(), all.toReversed());
    const list = await tollgate('event', 'list');
    t.match(
      list.out,
      /^ID +AT \(UTC\) +COMPANY +KIND +KEY +BY +TO +STATE +ATTEMPTS +NEXT \(UTC\) +ERROR\n/,
    );
    t.match(
      list.out,
      new RegExp(`ACME +key\\.created +${key.prefix}… +the command line +- +pending`),
    );
    for (const { key: text } of [key, second, third]) t.notOk(list.out.includes(text.slice(8)));

    await store.look(null, { webhook: true, email: false, operators: [] });
    const [dead, taken] = await store.due('webhook', 2, []);
    if (dead === undefined || taken === undefined) throw new Error('nothing is due');
    await store.failed(dead, 'status 500', null);
    await store.delivered(taken);
    t.match(
      (await tollgate('event', 'list')).out,
      new RegExp(`${dead.event.id} .* webhook +dead +1 +- +status 500`),
    );
    t.same(await kinds('--dead'), [dead.event.type]);
    t.same(await kinds('--kind', 'company', '--company', acme.id), ['company.closed']);
    t.same(await kinds('--since', '2999-01-01'), []);
    t.match(await tollgate('event', 'replay', '--dead'), {
      code: 0,
      out: 'Events that are sent again: 1.\n',
    });
    t.match(await tollgate('event', 'replay', taken.event.id, '--json'), {
      code: 0,
      json: { events: 1 },
    });
    t.equal((await store.due('webhook', 10, [])).length, 6);
    const none = { code: 0, out: 'There are no such events.\n' };
    t.match(await tollgate('event', 'replay', '--since', '2999-01-01', '--kind', 'key'), none);
  },
);

t.test(
  'apply tells the keys that it creates, gives another text, and revokes; a dry run tells nothing',
  async (t) => {
    const path = join(t.testdir({}), 'tollgate.yml');
    const apply = (keys: string, character: string, ...more: string[]) => {
      writeFileSync(
        path,
        `companies:\n  - name: Applied\n    keys:\n      - { name: Website, ${keys} }\n`,
      );
      return run(['apply', path, ...more], {
        env: { DATABASE_URL: url, TEXT: `svc_${character.repeat(32)}` },
      });
    };
    const valued = 'scopes: [chat], value: { env: TEXT }';
    for (const more of [['--dry-run'], [], []])
      t.match(await apply(valued, 'k', ...more), { code: 0 });
    t.match(await apply(valued, 'm'), { code: 0 });
    t.match(await apply('absent: true', 'm'), { code: 0 });
    const { json } = await tollgate('event', 'list', '--kind', 'key', '--json');
    const told = json
      .map(({ event }: EventRow) => event)
      .filter(({ company }: EventRow['event']) => company.name === 'Applied')
      .map(({ type, actor }: EventRow['event']) => `${type} by ${actor}`);
    t.same(told.reverse(), ['key.created by cli', 'key.rotated by cli', 'key.revoked by cli']);
  },
);

t.test('an unknown event exits 1; neither or both of an id and options exit 64', async (t) => {
  const id = randomUUID();
  const unknown = {
    code: 1,
    err: `tollgate: There is no event ${id}. See "tollgate event list".\n`,
  };
  t.match(await tollgate('event', 'replay', id), unknown);
  t.match(await tollgate('event', 'replay'), { code: 64, err: /missing ID, --since or --dead/ });
  t.match(await tollgate('event', 'replay', '--kind', 'key'), {
    code: 64,
    err: /missing ID, --since or --dead/,
  });
  t.match(await tollgate('event', 'replay', id, '--dead'), { code: 64, err: /an ID stands alone/ });
  t.match(await tollgate('event', 'replay', 'some'), { code: 64, err: /must be an id/ });
  t.match(await tollgate('event', 'list', '--kind', 'keys'), { code: 64, err: /--kind must be/ });
});

t.test('a list that leaves out older events says so', async (t) => {
  const { json: busy } = await tollgate('company', 'create', '--name', 'Busy', '--json');
  await db.run(
    10_000,
    (sql) => sql`
      insert into events (company_id, kind, subject, body)
      select ${busy.id}, 'company.closed', ${busy.id}, '{}' from generate_series(1, 1001)`,
  );
  const list = await tollgate('event', 'list', '--company', busy.id, '--json');
  t.match(list, {
    code: 0,
    err: /^tollgate: warning: only the newest 1000 are printed; narrow the list by --company/,
  });
  t.equal(list.json.length, 1000);
  await db.run(60_000, (sql) => sql`delete from events where id = ${list.json[0].id}`);
  t.match(await tollgate('event', 'list', '--company', busy.id), { code: 0, err: '' });
});
