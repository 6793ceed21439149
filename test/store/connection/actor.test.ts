import { randomBytes } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { insertCompany } from '../../../src/store/company/company.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { snapshot, within } from '../../../src/store/connection/tenant-role.ts';
import { pageOfAudit } from '../../../src/store/lists/audit.ts';
import { archiveCompany } from '../../../src/store/usage/archive.ts';
import { deleteUser, insertUser } from '../../../src/store/users/user.ts';
import { testDatabase } from '../../support/postgres.ts';

const MS = 60_000;
const OLGA = 'olga@gate.example';

t.test(
  'what is kept of a playground that was named by an operator does not tell a company the address',
  async (t) => {
    const { db } = await testDatabase(t);
    const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(MS, work);
    const names = ['Acme', 'Closed'];
    const [acme, closed] = (await Promise.all(
      names.map((name) => run((sql) => insertCompany(sql, { name }))),
    )) as unknown as [{ id: string; name: string }, { id: string; name: string }];
    await run((sql) => insertUser(sql, { email: OLGA, role: 'operator', company_id: null }, null));
    for (const { id } of [acme, closed]) {
      for (const email of ['ann@acme.example', 'gone@acme.example']) {
        const address = `${id.slice(0, 4)}-${email}`;
        const user = await run((sql) =>
          insertUser(sql, { email: address, role: 'owner', company_id: id }, null),
        );
        await addPlayground(id, address);
        if (email.startsWith('gone')) await run((sql) => deleteUser(sql, user.id));
      }
      await addPlayground(id, OLGA);
    }
    const erased = await run((sql) =>
      insertUser(sql, { email: 'e@acme.example', role: 'member', company_id: acme.id }, null),
    );
    await run((sql) => sql`select erase_person(${erased.email}, false)`);
    // as the version did that named them otherwise; the audit log keeps the names of before
    await run(
      (sql) => sql`update api_keys set name = 'Playground of operator' where created_by = ${OLGA}`,
    );
    await run((sql) => sql`update companies set closed_at = now() where id = ${closed.id}`);

    const asked = { search: '', newestFirst: true, from: null, company: acme.id };
    const log = JSON.stringify(await within(db, acme.id, MS, (sql) => pageOfAudit(sql, asked)));
    t.notMatch(log, OLGA);
    t.match(log, 'Playground of operator');
    t.match(log, `Playground of ${acme.id.slice(0, 4)}-gone@acme.example`);
    const found = await within(db, acme.id, MS, (sql) =>
      pageOfAudit(sql, { ...asked, search: OLGA }),
    );
    t.same(found.rows, [], 'the search does not find it either');

    const archive = async (internal: boolean) => {
      const pieces: Buffer[] = [];
      const keep = async (piece: Uint8Array) => pieces.push(Buffer.from(piece)) > 0;
      await snapshot(db, acme.id, MS, (sql) =>
        archiveCompany(sql, { company: acme, internal }, keep),
      );
      return gunzipSync(Buffer.concat(pieces)).toString();
    };
    t.notMatch(await archive(false), OLGA);
    t.match(await archive(true), `Playground of ${OLGA}`, 'an operator’s archive has all');

    async function addPlayground(company_id: string, created_by: string): Promise<void> {
      const key = {
        company_id,
        created_by,
        name: `Playground of ${created_by}`,
        purpose: 'playground',
        scopes: ['chat'],
      };
      await run(
        (sql) =>
          sql`insert into api_keys ${sql({ ...key, digest: randomBytes(32), prefix: 'svc_aaaa' })}`,
      );
    }
  },
);
