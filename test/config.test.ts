import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { describeConfig } from '../src/cli/frame/help.ts';
import { ConfigError, readConfig, VARIABLES } from '../src/config.ts';

const UPSTREAM_URL = 'http://router/v1';

function mistakes(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes;
    throw error;
  }
}

t.test('the defaults apply to an empty environment', async (t) => {
  t.match(readConfig({}), {
    host: '127.0.0.1',
    port: 8080,
    adminPort: 8081,
    basePath: '/v1',
    databaseUrl: null,
    upstreamUrls: null,
    dataDir: './data',
    spoolDir: './data/spool',
    ownedBy: 'tollgate',
    keyPrefix: 'svc_',
    billingTimezone: 'UTC',
    drainSeconds: 30,
    logLevel: 'info',
  });
});

t.test('an empty variable counts as unset; an empty SPOOL_DIR turns the spool off', async (t) => {
  const config = readConfig({ PORT: '', DATABASE_URL: '', SPOOL_DIR: '' });
  t.match(config, { port: 8080, databaseUrl: null, spoolDir: null });
  t.equal(readConfig({ DATA_DIR: '/var/lib/tollgate' }).spoolDir, '/var/lib/tollgate/spool');
});

t.test('all mistakes are reported at once, one line each', async (t) => {
  const found = mistakes({
    PORT: '70000',
    BASE_PATH: 'v1/',
    UPSTREAM_URL: 'ftp://x',
    BILLING_TIMEZONE: 'Europe/Atlantis',
    DRAIN_SECONDS: '-1',
    LOG_LEVEL: 'loud',
    KEY_PREFIX: 'my key',
  });
  t.same(found.map((line) => line.split(':')[0]).sort(), [
    'BASE_PATH',
    'BILLING_TIMEZONE',
    'DRAIN_SECONDS',
    'KEY_PREFIX',
    'LOG_LEVEL',
    'PORT',
    'UPSTREAM_URL',
  ]);
  for (const line of found) t.notMatch(line, '\n');
});

t.test('a wrong value that may hold a secret is not repeated', async (t) => {
  const secret = 'hunter2';
  const found = mistakes({
    DATABASE_URL: `mysql://root:${secret}@db/x`,
    UPSTREAM_URL: `http://user:${secret}@router/v1`,
    UPSTREAM_API_KEY: `${secret} with spaces`,
  });
  t.equal(found.length, 3);
  t.notMatch(found.join('\n'), secret);
});

t.test('UPSTREAM_URL names the addresses of one router', async (t) => {
  const addresses = (text: string) =>
    readConfig({ UPSTREAM_URL: text }).upstreamUrls?.map(({ href }) => href);
  t.same(addresses('http://a:4000/v1'), ['http://a:4000/v1']);
  t.same(addresses('http://a:4000/v1,http://b/v1/ , http://[::1]:80/v1'), [
    'http://a:4000/v1',
    'http://b/v1/',
    'http://[::1]/v1',
  ]);
  for (const [text, mistake] of [
    ['http://a/v1,', 'one is empty'],
    [',http://a/v1', 'one is empty'],
    ['http://a/v1,,http://b/v1', 'one is empty'],
    ['http://a/v1 http://b/v1', 'without spaces'],
    ['http://a/v1;http://b/v1', 'commas between them'],
    ['http://a/v1,b/v1', 'an http:// or https:// address'],
    ['http://http://a/v1', 'one scheme'],
    ['http://a/v1,ftp://b/v1', 'an http:// or https:// address'],
    ['http://a/v1,https://b/v1', 'all begin with http:// or all with https://'],
    ['http://a/v1,http://b', 'the same path'],
    ['http://a/v1,http://A:80/v1', 'all different'],
  ] as const) {
    const found = mistakes({ UPSTREAM_URL: text });
    t.equal(found.length, 1, text);
    t.match(found[0], `UPSTREAM_URL: must be `);
    t.match(found[0], mistake);
  }
  t.notMatch(mistakes({ UPSTREAM_URL: 'http://a/v1,http://user:hunter2@b/v1' })[0], 'hunter2');
});

t.test('the variables of OpenTelemetry have their standard meaning', async (t) => {
  const config = readConfig({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/',
    OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20a%2Cb, x-tenant = one=two,',
    OTEL_SERVICE_NAME: 'gate',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0.25',
  });
  t.equal(config.tracing?.url.href, 'http://collector:4318/');
  t.match(config.tracing, {
    headers: { authorization: 'Bearer a,b', 'x-tenant': 'one=two' },
    service: 'gate',
    sampler: { share: 0.25, followsCaller: false },
    ignored: [],
  });
  t.equal(readConfig({}).tracing, null);
  const secret = 'hunter2';
  const found = mistakes({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://me:${secret}@collector:4318`,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization: ${secret}`,
  });
  t.same(
    found.map((line) => line.split(':')[0]),
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_HEADERS'],
  );
  t.notMatch(found.join(), secret);
  for (const headers of ['a=%', 'a=%c3%bc', 'a=b%0d%0ac', 'a b=c', '=c']) {
    t.equal(mistakes({ OTEL_EXPORTER_OTLP_HEADERS: headers }).length, 1, headers);
  }
});

t.test('every value of the switches of OpenTelemetry does as its specification says', async (t) => {
  const url = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  const of = (env: Record<string, string>) => readConfig({ ...url, ...env }).tracing;
  for (const off of ['true', 'TRUE', 'True '])
    t.equal(of({ OTEL_SDK_DISABLED: off }), null, `disabled ${off}`);
  for (const on of ['false', 'FALSE', '']) t.same(of({ OTEL_SDK_DISABLED: on })?.ignored, [], on);
  t.same(of({ OTEL_SDK_DISABLED: '1' })?.ignored, [{ variable: 'OTEL_SDK_DISABLED', value: '1' }]);
  t.equal(of({ OTEL_TRACES_EXPORTER: 'none' }), null);
  t.same(of({ OTEL_TRACES_EXPORTER: 'otlp' })?.ignored, []);
  t.same(of({ OTEL_TRACES_EXPORTER: 'otlp,Console' })?.ignored, [
    { variable: 'OTEL_TRACES_EXPORTER', value: 'console' },
  ]);
  const samplers = [
    ['always_on', 1, false],
    ['always_off', 0, false],
    ['traceidratio', 0.5, false],
    ['parentbased_always_on', 1, true],
    ['parentbased_always_off', 0, true],
    ['parentbased_traceidratio', 0.5, true],
    ['Always_Off', 0, false],
  ] as const;
  for (const [name, share, followsCaller] of samplers) {
    const found = of({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: '0.5' });
    t.match(found, { sampler: { share, followsCaller }, ignored: [] }, name);
  }
  const usual = { share: 1, followsCaller: true };
  t.same(of({ OTEL_TRACES_SAMPLER_ARG: '0.5' })?.sampler, usual, 'no sampler takes it');
  for (const name of ['jaeger_remote', 'parentbased_jaeger_remote', 'xray', 'constructor']) {
    const found = of({
      OTEL_TRACES_SAMPLER: name,
      OTEL_TRACES_SAMPLER_ARG: 'endpoint=http://localhost:14250,pollingIntervalMs=5000',
    });
    t.same(found?.ignored, [{ variable: 'OTEL_TRACES_SAMPLER', value: name }]);
    t.same(found?.sampler, usual, name);
  }
  for (const value of ['-1', '1.5', 'all', '1e-1', '.', '2']) {
    const found = of({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: value });
    t.same(found?.ignored, [{ variable: 'OTEL_TRACES_SAMPLER_ARG', value }]);
    t.same(found?.sampler, { share: 1, followsCaller: false });
  }
});

t.test('READ_ON_SECONDS has two times, of streamed and of whole answers', async (t) => {
  t.same(readConfig({}).readOnMs, { streamed: 3000, whole: 3_600_000 });
  t.same(readConfig({ READ_ON_SECONDS: '0,15' }).readOnMs, { streamed: 0, whole: 15_000 });
  for (const wrong of ['3', '3,', '-1,3', '3, 4', '3,86401', '1,2,3', '1.5,2']) {
    t.match(
      mistakes({ READ_ON_SECONDS: wrong }),
      [/^READ_ON_SECONDS: must be two whole numbers/],
      wrong,
    );
  }
});

t.test('STREAM_KEEPALIVE_SECONDS is off, or up to five minutes', async (t) => {
  t.equal(readConfig({}).streamKeepaliveMs, 0);
  t.equal(readConfig({ STREAM_KEEPALIVE_SECONDS: '15' }).streamKeepaliveMs, 15_000);
  for (const wrong of ['301', '-1', '0.5', 'off']) {
    const rule = [/^STREAM_KEEPALIVE_SECONDS: must be a whole number from 0 to 300/];
    t.match(mistakes({ STREAM_KEEPALIVE_SECONDS: wrong }), rule, wrong);
  }
});

t.test('headers of upstream calls are decoded, with lowercase names', async (t) => {
  const config = readConfig({
    UPSTREAM_URL,
    UPSTREAM_HEADERS: 'X-Portkey-Api-Key=a%2Cb%3D, x-config = {"provider":"openai"},',
  });
  t.same(config.upstreamHeaders, {
    'x-portkey-api-key': 'a,b=',
    'x-config': '{"provider":"openai"}',
  });
  t.same(readConfig({}).upstreamHeaders, {});
});

t.test('all mistakes in headers of upstream calls are told at once, without a value', async (t) => {
  const RULE = 'must be name=value with a value of printable ASCII';
  const UPSTREAM_HEADERS =
    'x-a=1,hunter2,Host=hunter2,x-b=,x-c=%0d%0ahunter2,X-A=hunter2,x-d=%c3%bc,x e=1,x-f=%20a';
  t.same(mistakes({ UPSTREAM_URL, UPSTREAM_HEADERS, PORT: 'x' }).length, 2);
  t.same(mistakes({ UPSTREAM_URL, UPSTREAM_HEADERS }), [
    `UPSTREAM_HEADERS: pair 2 ${RULE}; host is set by the gateway and cannot be given; pair 4 ${RULE}; pair 5 ${RULE}; x-a occurs twice; pair 7 ${RULE}; pair 8 ${RULE}; pair 9 ${RULE} (the value is not shown)`,
  ]);
  for (const name of [
    'Authorization',
    'content-length',
    'transfer-encoding',
    'X-Request-Id',
    'accept-encoding',
  ]) {
    t.equal(mistakes({ UPSTREAM_URL, UPSTREAM_HEADERS: `${name}=a` }).length, 1, name);
  }
});

t.test('a cost centre is in no header that has another meaning or holds a secret', async (t) => {
  t.equal(readConfig({ UPSTREAM_URL, COST_CENTER_HEADER: 'X-Team' }).costCenterHeader, 'x-team');
  t.equal(readConfig({ UPSTREAM_URL }).costCenterHeader, null);
  for (const name of [
    'Authorization',
    'x-api-key',
    'cookie',
    'host',
    'Content-Type',
    'a b',
    'x:',
    'ü',
  ]) {
    t.match(
      mistakes({ UPSTREAM_URL, COST_CENTER_HEADER: name }),
      [/^COST_CENTER_HEADER: must/],
      name,
    );
  }
});

const SECRETS = {
  DATABASE_URL: ['databaseUrl', 'postgres://u:p@h/d'],
  UPSTREAM_API_KEY: ['upstreamApiKey', 'sk-1'],
  UPSTREAM_HEADERS: ['upstreamHeaders', 'x-router-key=a'],
  OIDC_CLIENT_SECRET: ['oidc', 'not so secret'],
  SECOND_FACTOR_KEY: ['secondFactorKeys', `${Buffer.alloc(32, 1).toString('base64')}`],
  ALERT_WEBHOOK_URL: ['alertWebhook', 'https://hooks.example/x?token=a'],
  ALERT_WEBHOOK_SECRET: ['alertWebhook', `whsec_${Buffer.alloc(24, 1).toString('base64')}`],
  SMTP_URL: ['alertMail', 'smtp://u:p@mail.example:587'],
  OTEL_EXPORTER_OTLP_HEADERS: ['tracing', 'authorization=a'],
} as const;

t.test(
  'every secret can come from a file; space at both ends is no part of it, as of any other setting',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-secrets-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    t.same(
      VARIABLES.filter(({ secret }) => secret).map(({ name }) => name),
      Object.keys(SECRETS),
    );
    const oidc = {
      OIDC_ISSUER: 'https://id.example',
      OIDC_CLIENT_ID: 'x',
      ADMIN_URL: 'https://gate.example',
    };
    const others = (name: string) => ({
      ...oidc,
      UPSTREAM_URL,
      ...(name === 'ALERT_WEBHOOK_URL'
        ? { ALERT_WEBHOOK_SECRET: SECRETS.ALERT_WEBHOOK_SECRET[1] }
        : {}),
      ...(name === 'ALERT_WEBHOOK_SECRET' ? { ALERT_WEBHOOK_URL: 'https://hooks.example' } : {}),
      ...(name.startsWith('OTEL') ? { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector' } : {}),
      ...(name === 'SMTP_URL' ? { ALERT_FROM: 'gate@gate.example' } : {}),
    });
    for (const [name, [property, value]] of Object.entries(SECRETS)) {
      const path = join(folder, name);
      const plain = readConfig({ ...others(name), [name]: value })[property];
      for (const end of ['', '\n', '\r\n', '\n\n', ' \t']) {
        writeFileSync(path, end + value + end);
        const fromFile = readConfig({ ...others(name), [`${name}_FILE`]: path + end, [name]: '' });
        t.ok(fromFile[property]);
        t.same(fromFile[property], plain, name);
        t.same(readConfig({ ...others(name), [name]: end + value + end })[property], plain, name);
      }
    }
    const row = {
      OIDC_GROUPS_CLAIM: 'groups',
      OWNED_BY: 'we',
      DATA_DIR: 'd',
      SPOOL_DIR: 's',
      ALERT_TO: 'a@b.example',
      API_URL: 'https://api.example',
      ...Object.fromEntries(
        VARIABLES.flatMap(({ name, fallback }) => (fallback ? [[name, fallback]] : [])),
      ),
    };
    const spaced = Object.entries(row).map(([name, value]) => [name, `\t${value} \r\n`]);
    const further = { ...others('SMTP_URL'), SMTP_URL: 'smtp://mail.example' };
    t.same(
      readConfig({ ...Object.fromEntries(spaced), ...further }),
      readConfig({ ...row, ...further }),
    );
    t.same(readConfig({ PORT: ' ', COST_CENTER_MEMBER: '\n' }), {
      ...readConfig({}),
      costCenterMember: null,
    });
    writeFileSync(join(folder, 'two'), '1');
    t.equal(
      readConfig({ UPSTREAM_API_KEY_FILE: '' }).upstreamApiKey,
      null,
      'an empty path counts as unset',
    );
    t.equal(
      readConfig({ PORT_FILE: join(folder, 'two') }).port,
      8080,
      'only secrets come from files',
    );
  },
);

t.test('a mistake about a file names the variable and the path, never the content', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-secrets-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'secret');
  const of = (env: Record<string, string> = {}) =>
    mistakes({ UPSTREAM_URL, UPSTREAM_API_KEY_FILE: path, ...env });
  t.same(of(), [`UPSTREAM_API_KEY_FILE: cannot read "${path}": ENOENT`]);
  t.same(mistakes({ UPSTREAM_URL, UPSTREAM_API_KEY_FILE: folder }), [
    `UPSTREAM_API_KEY_FILE: cannot read "${folder}": it is a folder, not a regular file`,
  ]);
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const kinds = [
    [pipe, 'it is a named pipe, not a regular file'],
    ['/dev/zero', 'it is a device, not a regular file'],
  ] as const;
  for (const [file, why] of kinds) {
    t.same(of({ UPSTREAM_API_KEY_FILE: file }), [
      `UPSTREAM_API_KEY_FILE: cannot read "${file}": ${why}`,
    ]);
  }
  const huge = join(folder, 'huge');
  writeFileSync(huge, '');
  truncateSync(huge, 17_000_000);
  t.same(of({ UPSTREAM_API_KEY_FILE: huge }), [
    `UPSTREAM_API_KEY_FILE: cannot read "${huge}": it is larger than 16 MiB`,
  ]);
  for (const nothing of ['', '\n']) {
    writeFileSync(path, nothing);
    t.same(of(), [`UPSTREAM_API_KEY_FILE: "${path}" is empty`]);
  }
  writeFileSync(path, 'hunter2 with spaces');
  t.same(of(), [
    `UPSTREAM_API_KEY_FILE: must be printable ASCII without spaces (the content of "${path}" is not shown)`,
  ]);
  t.same(of({ UPSTREAM_API_KEY: 'hunter3' }), [
    'UPSTREAM_API_KEY: is set, and UPSTREAM_API_KEY_FILE too; set only one',
  ]);
  writeFileSync(path, 'mysql://u:hunter2@h/d');
  t.match(mistakes({ DATABASE_URL_FILE: path, PORT: 'x' }), [
    'PORT: must be a whole number from 0 to 65535, not "x"',
    `DATABASE_URL_FILE: must begin with postgres:// (the content of "${path}" is not shown)`,
  ]);
});

t.test('an address with a user is a mistake that does not repeat the address', async (t) => {
  for (const name of [
    'UPSTREAM_URL',
    'API_URL',
    'ADMIN_URL',
    'OIDC_ISSUER',
    'OTEL_EXPORTER_OTLP_ENDPOINT',
  ]) {
    for (const user of ['me:hunter2', ':hunter2', 'hunter2']) {
      const found = mistakes({ [name]: `https://${user}@host` });
      t.match(found[0], `${name}: must be an http:// or https:// address without user`);
      t.notMatch(found.join(), 'hunter2');
    }
  }
});

t.test(
  'signing in through a provider needs OIDC_ISSUER, OIDC_CLIENT_ID and ADMIN_URL together',
  async (t) => {
    t.match(mistakes({ OIDC_ISSUER: 'http://id.example' }), [
      /^OIDC_ISSUER: must be an https:\/\/ address/,
      'ADMIN_URL: is needed with OIDC_ISSUER',
      'OIDC_CLIENT_ID: is needed with OIDC_ISSUER',
    ]);
    const env = {
      OIDC_ISSUER: 'http://localhost:1',
      OIDC_CLIENT_ID: 'x',
      ADMIN_URL: 'http://localhost:8081',
    };
    t.match(readConfig(env).oidc, { clientId: 'x', clientSecret: null });
    t.match(mistakes({ ...env, ADMIN_URL: 'http://localhost/pages' }), [
      'ADMIN_URL: must be an address without a path',
    ]);
  },
);

t.test(
  'a setting without the one that it needs is a mistake, and its meaning names the other',
  async (t) => {
    const webhookSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const alone: [Record<string, string>, string][] = [
      [{ TLS_CERT: 'cert.pem' }, 'TLS_KEY: is needed with TLS_CERT'],
      [{ TLS_KEY: 'key.pem' }, 'TLS_CERT: is needed with TLS_KEY'],
      [{ OIDC_CLIENT_ID: 'x' }, 'OIDC_ISSUER: is needed with OIDC_CLIENT_ID'],
      [{ OIDC_CLIENT_SECRET: 'x' }, 'OIDC_ISSUER: is needed with OIDC_CLIENT_SECRET'],
      [
        { OIDC_CLIENT_ID: 'x', OIDC_CLIENT_SECRET: 'x' },
        'OIDC_ISSUER: is needed with OIDC_CLIENT_ID and OIDC_CLIENT_SECRET',
      ],
      [
        { ALERT_WEBHOOK_URL: 'https://hooks.example' },
        'ALERT_WEBHOOK_SECRET: is needed with ALERT_WEBHOOK_URL',
      ],
      [
        { ALERT_WEBHOOK_SECRET: webhookSecret },
        'ALERT_WEBHOOK_URL: is needed with ALERT_WEBHOOK_SECRET',
      ],
      [{ SMTP_URL: 'smtp://mail.example' }, 'ALERT_FROM: is needed with SMTP_URL'],
      [{ ALERT_FROM: 'a@b.example' }, 'SMTP_URL: is needed with ALERT_FROM'],
      [{ ALERT_TO: 'a@b.example' }, 'SMTP_URL: is needed with ALERT_TO'],
    ];
    for (const [env, mistake] of alone) t.same(mistakes(env), [mistake]);
    const names = VARIABLES.map(({ name }) => name);
    for (const { name, needs, meaning } of VARIABLES) {
      for (const needed of needs)
        t.ok(names.includes(needed) && meaning.includes(needed), `${name} needs ${needed}`);
    }
  },
);

t.test('a second factor can be required where there is a key that encrypts it', async (t) => {
  const DATABASE_URL = 'postgres://h/d';
  const [one, two] = [32, 64].map((bytes) => Buffer.alloc(bytes, 1).toString('base64'));
  t.match(readConfig({}), { requireSecondFactor: null, secondFactorKeys: null });
  t.match(readConfig({ SECOND_FACTOR_KEY: `${one}, ${two}` }), { secondFactorKeys: [one, two] });
  t.equal(
    readConfig({ REQUIRE_SECOND_FACTOR: 'all' }).requireSecondFactor,
    'all',
    'the embedded database has a key',
  );
  t.equal(readConfig({ REQUIRE_SECOND_FACTOR: '', DATABASE_URL }).requireSecondFactor, null);
  const required = { DATABASE_URL, REQUIRE_SECOND_FACTOR: 'operators' };
  t.match(readConfig({ ...required, SECOND_FACTOR_KEY: one as string }), {
    requireSecondFactor: 'operators',
  });
  t.same(mistakes(required), ['SECOND_FACTOR_KEY: is needed with REQUIRE_SECOND_FACTOR']);
  t.same(mistakes({ REQUIRE_SECOND_FACTOR: 'owners' }), [
    'REQUIRE_SECOND_FACTOR: must be operators or all, not "owners"',
  ]);
  for (const key of [
    'short',
    Buffer.alloc(31).toString('base64'),
    Buffer.alloc(65).toString('base64'),
    `${one},`,
  ]) {
    t.same(mistakes({ SECOND_FACTOR_KEY: key }), [
      'SECOND_FACTOR_KEY: must be 32 to 64 random bytes in base64; several with commas between them (the value is not shown)',
    ]);
  }
});

t.test(
  'budget alerts: a webhook needs its secret, e-mails a sender, and addresses are addresses',
  async (t) => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const webhook = {
      ALERT_WEBHOOK_URL: 'https://hooks.example/services/x?token=hunter2',
      ALERT_WEBHOOK_SECRET: secret,
    };
    const mail = { SMTP_URL: 'smtps://me:hunter2@mail.example', ALERT_FROM: 'Gate@Gate.example' };
    t.match(readConfig({ ...webhook, ...mail, ALERT_TO: 'a@b.example, C@d.example' }), {
      alertWebhook: { url: { host: 'hooks.example' }, secret: Buffer.alloc(32, 7) },
      alertMail: {
        url: mail.SMTP_URL,
        from: 'gate@gate.example',
        to: ['a@b.example', 'c@d.example'],
      },
    });
    t.match(readConfig({}), { alertWebhook: null, alertMail: null });
    const wrong = [
      ...[
        'ftp://hooks.example',
        'https://me:hunter2@hooks.example',
        'https://hooks.example/#x',
        'hunter2',
      ].map((url) => ({
        ALERT_WEBHOOK_URL: url,
        ALERT_WEBHOOK_SECRET: secret,
      })),
      ...[
        'hunter2',
        'whsec_',
        `whsec_${Buffer.alloc(23).toString('base64')}`,
        secret.slice(6),
        `${secret}!`,
      ].map((text) => ({
        ...webhook,
        ALERT_WEBHOOK_SECRET: text,
      })),
      ...['https://mail.example', 'smtp://', 'hunter2'].map((SMTP_URL) => ({ ...mail, SMTP_URL })),
      ...['gate', 'Gate <gate@gate.example>', 'a@b.example,c@d.example'].map((ALERT_FROM) => ({
        ...mail,
        ALERT_FROM,
      })),
      { ...mail, ALERT_TO: 'a@b.example,' },
    ];
    for (const env of wrong) {
      const found = mistakes(env);
      t.equal(found.length, 1, `${Object.values(env)}`);
      t.notMatch(found.join(), 'hunter2');
    }
  },
);

t.test('time zones are those the runtime knows', async (t) => {
  t.equal(readConfig({ BILLING_TIMEZONE: 'Europe/Berlin' }).billingTimezone, 'Europe/Berlin');
  t.match(mistakes({ BILLING_TIMEZONE: 'Europe/Atlantis' }), [
    /^BILLING_TIMEZONE: must be an IANA time zone/,
  ]);
});

t.test('a path of a socket that is too long is refused, where Node may cut it off', async (t) => {
  t.match(mistakes({ LISTEN_SOCKET: `/${'s'.repeat(120)}` }), [
    /^LISTEN_SOCKET: must be a path of at most 10\d bytes/,
  ]);
});

t.test('HOST and ADMIN_HOST are an address or a name, without brackets and port', async (t) => {
  const right = [
    '127.0.0.1',
    '0.0.0.0',
    '::',
    '::1',
    'fe80::1%eth0',
    '::ffff:10.0.0.1',
    'localhost',
    'gate_1.example',
  ];
  for (const host of right)
    t.match(readConfig({ HOST: host, ADMIN_HOST: host }), { host, adminHost: host });
  const RULE = 'must be an address or a name, without brackets and port';
  for (const HOST of ['[::1]', '[::1]:8080', '127.0.0.1:8080', 'http://127.0.0.1', 'a b'])
    t.same(mistakes({ HOST, ADMIN_HOST: HOST }), [
      `HOST: ${RULE}, not "${HOST}"`,
      `ADMIN_HOST: ${RULE}, not "${HOST}"`,
    ]);
});

t.test('FAST_HTTP is on unless it is switched off', async (t) => {
  t.equal(readConfig({}).fastHttp, true);
  t.equal(readConfig({ FAST_HTTP: 'off' }).fastHttp, false);
  t.match(mistakes({ FAST_HTTP: 'no' }), ['FAST_HTTP: must be on or off, not "no"']);
});

t.test('ADMIN_PORT may be off', async (t) => {
  t.equal(readConfig({ ADMIN_PORT: 'off' }).adminPort, null);
  t.same(mistakes({ ADMIN_PORT: 'of' }), [
    'ADMIN_PORT: must be a whole number from 0 to 65535 or off, not "of"',
  ]);
});

t.test('the configuration cannot be changed afterwards', async (t) => {
  t.throws(() => Object.assign(readConfig({}), { port: 1 }), TypeError);
});

t.test('the help lists every variable within 80 columns', async (t) => {
  const help = describeConfig();
  for (const { name } of VARIABLES) t.match(help, new RegExp(`^  ${name} `, 'm'));
  for (const line of help.split('\n')) t.ok(line.length <= 80, line);
});
