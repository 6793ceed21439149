import t from 'tap';
import { parseDatabaseUrl } from '../../../src/store/connection/address.ts';

t.test('a plain URL', async (t) => {
  t.match(parseDatabaseUrl('postgres://user:p%40ss:w%2Ford@db.example:6543/shop'), {
    targets: [{ host: 'db.example', port: 6543 }],
    role: 'any',
    user: 'user',
    password: 'p@ss:w/ord',
    database: 'shop',
    encryption: { mode: 'never' },
    settings: { application_name: 'tollgate' },
  });
  t.match(parseDatabaseUrl('postgresql://a@b'), {
    targets: [{ host: 'b', port: 5432 }],
    user: 'a',
    password: undefined,
  });
  t.match(
    parseDatabaseUrl('postgres://user:p@ss@host/db'),
    { user: 'user', password: 'p@ss', database: 'db' },
    'a bare @',
  );
  t.equal(
    parseDatabaseUrl('postgres://u@h/db?password=a+b%20c').password,
    'a+b c',
    'as in libpq, + is no blank',
  );
});

t.test('several hosts: the primary is looked for unless told otherwise', async (t) => {
  const both = [
    { host: 'a', port: 5432 },
    { host: '::1', port: 5433 },
  ];
  t.match(parseDatabaseUrl('postgres://u@a,[::1]:5433/db'), { targets: both, role: 'primary' });
  t.match(parseDatabaseUrl('postgres://u@/db?host=a,[::1]&port=5432,5433'), { targets: both });
  const role = (name: string) =>
    parseDatabaseUrl(`postgres://u@a,b/db?target_session_attrs=${name}`).role;
  for (const name of ['any', 'read-write', 'primary', 'standby', 'read-only', 'prefer-standby'])
    t.equal(role(name), name);
  t.throws(() => role('best'), {
    message: /must be any, primary, .* or prefer-standby: no other value is supported/,
  });
});

t.test('a Unix-socket folder', async (t) => {
  const targets = [{ path: '/run/postgres sql/.s.PGSQL.6000' }];
  t.match(parseDatabaseUrl('postgres://u@/db?host=/run/postgres%20sql&port=6000'), {
    targets,
    database: 'db',
  });
  t.match(parseDatabaseUrl('postgres://u@%2Frun%2Fpostgres%20sql:6000/db'), { targets });
  t.match(parseDatabaseUrl('postgres:///db?host=/tmp'), {
    targets: [{ path: '/tmp/.s.PGSQL.5432' }],
    user: undefined,
  });
});

t.test('a host of the query leaves the port of the other one', async (t) => {
  const of = (text: string) => parseDatabaseUrl(`postgres://${text}`).targets;
  t.match(of('u@h:6000/db?host=/run/own'), [{ path: '/run/own/.s.PGSQL.6000' }]);
  t.match(of('u@h:6000/db?host=a,b'), [
    { host: 'a', port: 6000 },
    { host: 'b', port: 6000 },
  ]);
  t.match(of('u@[::1]:6000/db?host=a'), [{ host: 'a', port: 6000 }]);
  t.match(of('u@[::1]/db?host=a'), [{ host: 'a', port: 5432 }]);
  t.match(of('u@h:6000/db?host=a&port=7000'), [{ host: 'a', port: 7000 }]);
  t.match(
    of('u@h:6000/db?port=7000'),
    [{ host: 'h', port: 7000 }],
    'a port of the query goes first',
  );
});

t.test('TLS as libpq reads it', async (t) => {
  const tls = (query: string) => parseDatabaseUrl(`postgres://u@h/db?${query}`).encryption;
  t.equal(tls('').mode, 'never');
  t.equal(tls('sslmode=disable').mode, 'never');
  t.equal(tls('sslmode=prefer').mode, 'prefer');
  t.match(tls('sslmode=require'), { mode: 'always', options: { rejectUnauthorized: false } });
  t.same(tls('sslmode=verify-full').options, {}, 'Node verifies by default');
  t.same(tls('sslmode=verify-full&sslrootcert=system').options, {});
  for (const mode of ['require', 'verify-ca'])
    t.throws(() => tls(`sslmode=${mode}&sslrootcert=system`), {
      message: /sslrootcert=system needs sslmode=verify-full/,
    });
  t.throws(() => tls('sslmode=maybe'), { message: /sslmode must be .*: no other value/ });
  const file = t.testdir({ 'root.pem': 'certificate' });
  const root = `sslrootcert=${file}/root.pem`;
  t.same(tls(`sslmode=verify-full&${root}`).options, { ca: 'certificate' });
  for (const mode of ['require', 'verify-ca'])
    t.match(tls(`sslmode=${mode}&${root}`).options, {
      ca: 'certificate',
      checkServerIdentity: Function,
      rejectUnauthorized: undefined,
    });
});

t.test('a client certificate needs its key, and TLS for certain', async (t) => {
  const folder = t.testdir({ 'no.pem': 'no certificate' });
  const refused = (query: string) =>
    (t.throws(() => parseDatabaseUrl(`postgres://u@h/db?${query}`)) as Error).message;
  const pair = `sslcert=${folder}/no.pem&sslkey=${folder}/no.pem`;
  for (const mode of ['', 'sslmode=disable&', 'sslmode=prefer&'])
    t.match(refused(`${mode}${pair}`), /sslcert need sslmode=require, verify-ca or verify-full/);
  t.match(
    refused(`sslmode=require&sslcert=${folder}/no.pem`),
    /sslcert and sslkey are set together/,
  );
  t.match(
    refused(`sslmode=require&sslkey=${folder}/no.pem`),
    /sslcert and sslkey are set together/,
  );
  t.match(
    refused(`sslmode=require&sslcert=/none&sslkey=${folder}/no.pem`),
    /sslcert "\/none" cannot be read: ENOENT/,
  );
  t.match(
    refused(`sslmode=require&sslrootcert=/none`),
    /sslrootcert "\/none" cannot be read: ENOENT/,
  );
  for (const mode of ['', 'sslmode=disable&', 'sslmode=prefer&'])
    t.match(
      refused(`${mode}sslrootcert=${folder}/no.pem`),
      /sslrootcert and sslcert need sslmode=require, verify-ca or verify-full/,
    );
  t.match(refused(`sslmode=require&${pair}`), /sslcert and sslkey cannot be used: /);
});

t.test('the rest of the query is settings of the session', async (t) => {
  const of = (query: string) => parseDatabaseUrl(`postgres://u@h/db?${query}`).settings;
  t.same(of(''), { application_name: 'tollgate' });
  t.same(
    of('application_name=x&search_path=app&tcp_user_timeout=9&keepalives_idle=5&pgbouncer=true'),
    {
      application_name: 'x',
      search_path: 'app',
    },
  );
});

t.test('how long a server may take to be reached', async (t) => {
  const of = (query: string) => parseDatabaseUrl(`postgres://u@h/db?${query}`).connectMs;
  t.equal(of(''), undefined);
  t.equal(of('connect_timeout=7'), 7000);
  t.equal(of('connect_timeout=1'), 2000, 'as in libpq');
  t.equal(of('connect_timeout=-1'), undefined);
  t.throws(() => of('connect_timeout=soon'), { message: /connect_timeout must be a whole number/ });
});

t.test('what the driver cannot do is refused by its name, and never ignored', async (t) => {
  // biome-ignore format: a table
  const refused = [
    'require_auth=none', 'requirepeer=postgres', 'requiressl=1', 'service=x', 'servicefile=x', 'passfile=/f',
    'hostaddr=10.0.0.5', 'load_balance_hosts=random', 'fallback_application_name=x', 'client_encoding=LATIN1',
    'replication=database', 'channel_binding=require', 'gssencmode=require', 'krbsrvname=x',
    'min_protocol_version=3.2', 'max_protocol_version=3.2', 'scram_client_key=hunter2', 'oauth_client_secret=hunter2',
    'ssl=true', 'sslcertmode=require', 'sslcrl=x', 'sslcrldir=x', 'sslkeylogfile=x', 'sslnegotiation=direct',
    'sslpassword=hunter2', 'sslsni=0', 'ssl_min_protocol_version=TLSv1.3',
  ];
  for (const [name, value] of refused.map((pair) => pair.split('='))) {
    const { message } = t.throws(() =>
      parseDatabaseUrl(`postgres://u@h/db?${name}=${value}`),
    ) as Error;
    t.match(message, new RegExp(`the database URL's ${name} .*supported`));
    t.notMatch(message, /hunter2/);
  }
});

t.test(
  'a URL that cannot be read is refused with what is allowed, without being repeated',
  async (t) => {
    const refusals: readonly (readonly [url: string, said: string])[] = [
      ['mysql://u:secret@h/db', 'must look like postgres://user:password@host:port/database'],
      ['postgres://u:sec%ret@h/db', 'write % as %25'],
      [
        'postgres://u:secret@h:99999/db',
        'host:port or [IPv6 address]:port, with a port from 1 to 65535',
      ],
      [
        'postgres://u:secret@h:x/db',
        'host:port or [IPv6 address]:port, with a port from 1 to 65535',
      ],
      ['u:secret@h', 'must look like postgres://user:password@host:port/database'],
      ['postgres://u:secret@h/db?application_name=%00', 'without line breaks and other control'],
      ['postgres://u:secret@h/db\n', 'without line breaks'],
      ['postgres://u:secret\r@h/db', 'without line breaks'],
      ['postgres://u:secret@a,b,c/db?port=1,2', 'has 3 hosts, and port for 2'],
    ];
    for (const [url, said] of refusals) {
      const error = t.throws(() => parseDatabaseUrl(url)) as Error;
      t.type(error, TypeError);
      t.match(error.message, said);
      t.notMatch(
        JSON.stringify({ ...error, message: error.message, stack: error.stack }),
        /sec/,
        error.message,
      );
    }
  },
);
