import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
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

t.test('the address of a host is given, and its name is for the certificate', async (t) => {
  const of = (text: string) => parseDatabaseUrl(`postgres://${text}`).targets;
  t.match(of('u@db.example:6543/db?hostaddr=10.0.0.5'), [
    { host: 'db.example', port: 6543, address: '10.0.0.5' },
  ]);
  t.match(of('u@/db?hostaddr=10.0.0.5'), [{ host: '10.0.0.5', port: 5432, address: '10.0.0.5' }]);
  t.match(of('u@/db?hostaddr=10.0.0.5,::1&port=1,2'), [
    { address: '10.0.0.5', port: 1 },
    { address: '::1', port: 2 },
  ]);
  t.match(of('u@a,b/db?hostaddr=,::1'), [
    { host: 'a', address: undefined },
    { host: 'b', address: '::1' },
  ]);
  for (const [text, said] of [
    ['u@a/db?hostaddr=a.example', /hostaddr must be an IP address/],
    ['u@a,b/db?hostaddr=::1', /has 2 hosts, and hostaddr for 1/],
    ['u@a,b,c/db?port=1,2', /has 3 hosts, and port for 2/],
  ] as const) {
    t.throws(() => of(text), { message: said });
  }
});

t.test('TLS as libpq reads it', async (t) => {
  const tls = (query: string) => parseDatabaseUrl(`postgres://u@h/db?${query}`).encryption;
  t.equal(tls('sslmode=disable').mode, 'never');
  t.equal(tls('sslmode=prefer').mode, 'prefer');
  t.match(tls('sslmode=require'), { mode: 'always', options: { rejectUnauthorized: false } });
  t.match(tls('requiressl=1'), { mode: 'always', options: { rejectUnauthorized: false } });
  t.same(tls('sslmode=verify-full').options, {}, 'Node verifies by default');
  t.same(tls('sslmode=verify-full&sslrootcert=system').options, {});
  t.same(tls('sslrootcert=system'), tls('sslmode=verify-full'));
  t.throws(() => tls('sslmode=require&sslrootcert=system'), {
    message: /sslrootcert=system needs sslmode=verify-full/,
  });
  t.throws(() => tls('sslmode=maybe'), { message: /sslmode must be/ });
  const file = t.testdir({ 'root.pem': 'certificate' });
  const verified = tls(`sslmode=verify-full&sslrootcert=${file}/root.pem`);
  t.same(verified.options, { ca: 'certificate' });
  t.match(tls(`sslmode=require&sslrootcert=${file}/root.pem`).options, {
    ca: 'certificate',
    checkServerIdentity: Function,
  });
  t.match(tls('sslmode=require&ssl_min_protocol_version=tlsv1.3'), {
    options: { minVersion: 'TLSv1.3' },
  });
  t.match(tls('sslmode=require&ssl_max_protocol_version=TLSv1.2'), {
    options: { maxVersion: 'TLSv1.2' },
  });
  t.throws(() => tls('ssl_max_protocol_version=TLSv1.1'), { message: /is below TLSv1.2/ });
  t.throws(() => tls('ssl_min_protocol_version=SSLv3'), {
    message: /must be TLSv1, .* no other value is supported/,
  });
  t.match(
    [tls('sslsni=0'), tls('sslsni=1'), tls('sslsni=')],
    [{ namesHost: false }, { namesHost: true }, { namesHost: true }],
  );
  t.match(tls('sslmode=require&sslnegotiation=direct'), {
    isDirect: true,
    options: { ALPNProtocols: ['postgresql'] },
  });
  t.throws(() => tls('sslmode=prefer&sslnegotiation=direct'), {
    message: /sslnegotiation=direct needs sslmode=require/,
  });
});

t.test('passwords of a file, by server, database and user', async (t) => {
  const folder = t.testdir({ exposed: 'h:1:d:u:p' });
  const path = join(folder, 'passwords');
  const lines = [
    '# db.example:5432:shop:ada:comment',
    'db.example:5432:shop:ada:first\\:one:rest',
    'db.example:6543:*:ada:',
    'odd\\:host:5432:*:*:odd',
    'localhost:*:*:ada:local',
    '\\*:*:*:*:a star of its own',
    '2001\\:db8\\:\\:1:*:*:*:six',
    '*:*:*:*:*',
  ];
  writeFileSync(path, `${lines.join('\n')}\r\n`, { mode: 0o600 });
  const of = (address: string) =>
    parseDatabaseUrl(
      `postgres://${address}${address.includes('?') ? '&' : '?'}passfile=${path}`,
    ).targets.map(({ password }) => password);
  t.same(of('ada@db.example/shop'), ['first:one']);
  t.same(of('ada@db.example/other'), ['*'], 'a star is a password');
  t.same(of('ada@localhost/x'), ['local']);
  t.same(of('ada@/x?host=/tmp'), ['local'], 'the folder where Postgres keeps its socket');
  t.same(of('ada@/x?host=/run/own'), ['*']);
  t.same(of('ada@[2001:db8::1]/x'), ['six']);
  t.same(of('ada@db.example/shop?hostaddr=10.0.0.5'), ['first:one'], 'by its name');
  t.same(of('ada@db.example,localhost/shop'), ['first:one', 'local'], 'each server has its own');
  t.same(of('ada:known@localhost/x'), [undefined], 'a password of the address goes first');
  t.same(
    parseDatabaseUrl('postgres://u@h/d?passfile=/no/such/file').targets[0]?.password,
    undefined,
    'as psql takes it',
  );
  const refused = (file: string) =>
    t.throws(() => parseDatabaseUrl(`postgres://u@h/d?passfile=${file}`)) as Error;
  t.match(
    refused(join(folder, 'exposed')).message,
    /passfile ".*exposed" cannot be used: .* chmod 600/,
  );
  t.match(refused('/dev/null').message, /it is a device, not a regular file/);
});

t.test('a client certificate needs its key, and TLS for certain', async (t) => {
  const folder = t.testdir({ 'no.pem': 'no certificate' });
  const refused = (query: string) =>
    (t.throws(() => parseDatabaseUrl(`postgres://u@h/db?${query}`)) as Error).message;
  const pair = `sslcert=${folder}/no.pem&sslkey=${folder}/no.pem`;
  for (const mode of ['', 'sslmode=disable&', 'sslmode=prefer&'])
    t.match(refused(`${mode}${pair}`), /sslcert needs sslmode=require, verify-ca or verify-full/);
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
      /sslrootcert needs sslmode=require, verify-ca or verify-full/,
    );
  t.match(refused(`sslmode=require&${pair}`), /sslcert and sslkey cannot be used: /);
});

t.test('the rest of the query is settings of the session', async (t) => {
  const of = (query: string) => parseDatabaseUrl(`postgres://u@h/db?${query}`);
  const harmless =
    'krbsrvname=x&gsslib=gssapi&sslcompression=0&gssencmode=prefer&replication=false&client_encoding=auto';
  const { settings } = of(
    `application_name=x&search_path=app&channel_binding=prefer&tcp_user_timeout=9&${harmless}`,
  );
  t.same(settings, { application_name: 'x', search_path: 'app' });
  t.same(of('fallback_application_name=y').settings, { application_name: 'y' });
  t.same(of('fallback_application_name=y&application_name=x').settings, { application_name: 'x' });
});

t.test(
  'how long a server may take to be reached, and when it is asked whether it lives',
  async (t) => {
    const of = (query: string) => parseDatabaseUrl(`postgres://u@h/db?${query}`);
    t.match(of(''), { connectMs: undefined, keepsAlive: true, keepaliveMs: 30_000 });
    t.match(of('connect_timeout=7&keepalives=0&keepalives_idle=10'), {
      connectMs: 7000,
      keepsAlive: false,
      keepaliveMs: 10_000,
    });
    t.equal(of('connect_timeout=1').connectMs, 2000, 'as in libpq');
    t.equal(of('connect_timeout=-1').connectMs, undefined);
    t.throws(() => of('connect_timeout=soon'), {
      message: /connect_timeout must be a whole number/,
    });
  },
);

t.test('what the driver cannot do is refused by its name, and never ignored', async (t) => {
  for (const [name, value] of [
    'require_auth=none',
    'requirepeer=postgres',
    'service=x',
    'servicefile=x',
    'sslkeylogfile=x',
    'scram_client_key=hunter2',
    'oauth_client_secret=hunter2',
    'channel_binding=require',
    'gssencmode=require',
    'replication=database',
    'client_encoding=LATIN1',
    'min_protocol_version=3.2',
    'sslcertmode=require',
  ].map((pair) => pair.split('='))) {
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
      ['postgres://u:secret@h/db?application_name=%00', 'has a NUL character'],
      ['postgres://u:secret@h/db\n', 'has a line break'],
      ['postgres://u:secret\r@h/db', 'has a line break'],
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
