import t from 'tap';
import { parseAddress } from '../../src/store/address.ts';

t.test('a plain URL', async (t) => {
  t.match(parseAddress('postgres://user:p%40ss:w%2Ford@db.example:6543/shop'), {
    targets: [{ host: 'db.example', port: 6543 }],
    role: 'any',
    user: 'user',
    password: 'p@ss:w/ord',
    database: 'shop',
    tls: false,
    settings: { application_name: 'tollgate' },
  });
  t.match(parseAddress('postgresql://a@b'), { targets: [{ host: 'b', port: 5432 }], user: 'a', password: undefined });
  t.match(parseAddress('postgres://user:p@ss@host/db'), { user: 'user', password: 'p@ss', database: 'db' }, 'a bare @');
  t.equal(parseAddress('postgres://u@h/db?password=a+b%20c').password, 'a+b c', 'as in libpq, + is no blank');
});

t.test('several hosts: the primary is looked for unless told otherwise', async (t) => {
  const both = [
    { host: 'a', port: 5432 },
    { host: '::1', port: 5433 },
  ];
  t.match(parseAddress('postgres://u@a,[::1]:5433/db'), { targets: both, role: 'primary' });
  t.match(parseAddress('postgres://u@/db?host=a,[::1]&port=5432,5433'), { targets: both });
  const role = (name: string) => parseAddress(`postgres://u@a,b/db?target_session_attrs=${name}`).role;
  t.same(['any', 'read-write', 'primary', 'standby', 'read-only'].map(role), [
    'any',
    'primary',
    'primary',
    'standby',
    'standby',
  ]);
  t.throws(() => role('best'), { message: /must be one of/ });
});

t.test('a Unix-socket folder', async (t) => {
  const targets = [{ path: '/run/postgres sql/.s.PGSQL.6000' }];
  t.match(parseAddress('postgres://u@/db?host=/run/postgres%20sql&port=6000'), { targets, database: 'db' });
  t.match(parseAddress('postgres://u@%2Frun%2Fpostgres%20sql:6000/db'), { targets });
  t.match(parseAddress('postgres:///db?host=/tmp'), { targets: [{ path: '/tmp/.s.PGSQL.5432' }], user: undefined });
});

t.test('TLS as libpq reads it', async (t) => {
  const tls = (query: string) => parseAddress(`postgres://u@h/db?${query}`).tls;
  t.equal(tls('sslmode=disable'), false);
  t.equal(tls('sslmode=prefer'), 'prefer');
  t.match(tls('sslmode=require'), { rejectUnauthorized: false });
  t.same(tls('sslmode=verify-full'), {}, 'Node verifies by default');
  t.same(tls('sslmode=verify-full&sslrootcert=system'), {});
  t.throws(() => tls('sslmode=maybe'), { message: /sslmode must be/ });
  const file = t.testdir({ 'root.pem': 'certificate' });
  const verified = tls(`sslmode=verify-full&sslrootcert=${file}/root.pem`);
  t.same(verified, { ca: 'certificate' });
  t.match(tls(`sslmode=require&sslrootcert=${file}/root.pem`), { ca: 'certificate', checkServerIdentity: Function });
});

t.test('a client certificate needs its key, and TLS for certain', async (t) => {
  const folder = t.testdir({ 'no.pem': 'no certificate' });
  const refused = (query: string) => (t.throws(() => parseAddress(`postgres://u@h/db?${query}`)) as Error).message;
  const pair = `sslcert=${folder}/no.pem&sslkey=${folder}/no.pem`;
  for (const mode of ['', 'sslmode=disable&', 'sslmode=prefer&'])
    t.match(refused(`${mode}${pair}`), /sslcert needs sslmode=require, verify-ca or verify-full/);
  t.match(refused(`sslmode=require&sslcert=${folder}/no.pem`), /sslcert and sslkey are set together/);
  t.match(refused(`sslmode=require&sslkey=${folder}/no.pem`), /sslcert and sslkey are set together/);
  t.match(refused(`sslmode=require&sslcert=/none&sslkey=${folder}/no.pem`), /sslcert "\/none" cannot be read: ENOENT/);
  t.match(refused(`sslmode=require&sslrootcert=/none`), /sslrootcert "\/none" cannot be read: ENOENT/);
  for (const mode of ['', 'sslmode=disable&', 'sslmode=prefer&'])
    t.match(
      refused(`${mode}sslrootcert=${folder}/no.pem`),
      /sslrootcert needs sslmode=require, verify-ca or verify-full/,
    );
  t.match(refused(`sslmode=require&${pair}`), /sslcert and sslkey cannot be used: /);
});

t.test('the rest of the query is settings of the session', async (t) => {
  const { settings } = parseAddress(
    'postgres://u@h/db?application_name=x&search_path=app&connect_timeout=3&channel_binding=require&keepalives_idle=10&tcp_user_timeout=9',
  );
  t.same(settings, { application_name: 'x', search_path: 'app' });
});

t.test('a URL that cannot be read is refused with what is allowed, without being repeated', async (t) => {
  const refusals: readonly (readonly [url: string, said: string])[] = [
    ['mysql://u:secret@h/db', 'must look like postgres://user:password@host:port/database'],
    ['postgres://u:sec%ret@h/db', 'write % as %25'],
    ['postgres://u:secret@h:99999/db', 'host:port or [IPv6 address]:port, with a port from 1 to 65535'],
    ['postgres://u:secret@h:x/db', 'host:port or [IPv6 address]:port, with a port from 1 to 65535'],
    ['u:secret@h', 'must look like postgres://user:password@host:port/database'],
    ['postgres://u:secret@h/db\n', 'has a line break'],
    ['postgres://u:secret\r@h/db', 'has a line break'],
  ];
  for (const [url, said] of refusals) {
    const error = t.throws(() => parseAddress(url)) as Error;
    t.type(error, TypeError);
    t.match(error.message, said);
    t.notMatch(JSON.stringify({ ...error, message: error.message, stack: error.stack }), /sec/, error.message);
  }
});
