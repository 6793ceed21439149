import t from 'tap';
import { startGateway } from '../../support/gateway.ts';
import { PASSWORD, Person, startOwnOffice } from '../people.ts';

/** Each replica counts failed sign-ins by itself. */

t.test('attempts over two replicas', async (t) => {
  const office = await startOwnOffice(t);
  const other = await startGateway(t, office.upstream.url, { DATABASE_URL: office.databaseUrl });
  const { owner } = office.people;
  const statuses: number[] = [];
  for (let n = 0; n < 14; n++) {
    const person = new Person(n % 2 === 0 ? office.adminUrl : other.adminUrl);
    statuses.push((await person.signIn(owner, 'wrong')).status);
  }
  t.same(statuses, [...Array(10).fill(401), ...Array(4).fill(429)], 'five for each replica');
  for (const url of [office.adminUrl, other.adminUrl]) {
    t.equal(
      (await new Person(url).signIn(owner, PASSWORD)).status,
      429,
      'then none, with the right password either',
    );
  }
  const person = new Person(office.adminUrl);
  await person.signIn(office.people.operator);
  const same = new Person(other.adminUrl);
  for (const [name, value] of person.cookies) same.cookies.set(name, value);
  t.equal((await same.get('/account')).status, 200, 'a session is good on all of them');
});
