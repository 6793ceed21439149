import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

t.test(
  'forget gives up the records of gateways that are gone, and the audit log tells it',
  async (t) => {
    const { db, url } = await testDatabase(t);
    const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
    const add = (name: string, seen: string) =>
      db.run(
        5000,
        (sql) => sql`insert into gateways (id, name, version, last_seen_at, backlog)
        values (gen_random_uuid(), ${name}, '1', now() - ${seen}::interval, 12)`,
      );
    await add('pod-1', '40 days');
    await add('pod-1', '2 hours');
    await add('pod-1', '1 second');
    await add('pod-2', '1 second');
    await add('pod-3', '2 hours');
    const remedies = async () =>
      (await tollgate('status', '--json')).json.problems as { remedy: string }[];
    t.equal(
      (await remedies()).filter(({ remedy }) =>
        remedy.endsWith('run: tollgate gateway forget pod-1'),
      ).length,
      2,
    );

    const forgotten =
      /^Forgot pod-1, last seen \d{4}-\d\d-\d\dT[\d:.]+Z, with 12 usage records\.$/gm;
    const { code, out } = await tollgate('gateway', 'forget', 'pod-1');
    t.match({ code, lines: out.match(forgotten)?.length }, { code: 0, lines: 2 });
    const left = await db.run(
      5000,
      (sql) => sql<{ name: string }[]>`select name from gateways order by name`,
    );
    t.same(
      left.map(({ name }) => name),
      ['pod-1', 'pod-2', 'pod-3'],
      'not the one that runs',
    );
    const [entry, ...others] = await db.run(
      5000,
      (sql) =>
        sql`select actor, action, company_id, before from audit_log where subject = 'gateways'`,
    );
    t.match(entry, {
      actor: 'cli',
      action: 'delete',
      company_id: null,
      before: { name: 'pod-1', backlog: 12 },
    });
    t.equal(others.length, 1);
    t.match((await tollgate('status')).out, /removed gateway pod-1/);

    t.match(await tollgate('gateway', 'forget', 'pod-2'), {
      code: 1,
      err: /pod-2 runs: it was seen within the last minute/,
    });
    t.match(await tollgate('gateway', 'forget', 'pod-9'), {
      code: 1,
      err: /There is no gateway pod-9\. See "tollgate status"\./,
    });
  },
);
