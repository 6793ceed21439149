import t from 'tap';
import { ConfigError, describeConfig, readConfig, VARIABLES } from '../src/config.ts';
import { isTimeZone } from '../src/domain/month.ts';

function mistakes(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env, isTimeZone);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes;
    throw error;
  }
}

t.test('with an empty environment the defaults hold', async (t) => {
  t.match(readConfig({}, isTimeZone), {
    host: '127.0.0.1',
    port: 8080,
    adminPort: 8081,
    basePath: '/v1',
    databaseUrl: null,
    upstreamUrl: null,
    dataDir: './data',
    spoolDir: './data/spool',
    ownedBy: 'tollgate',
    keyPrefix: 'svc_',
    billingTimezone: 'UTC',
    drainSeconds: 30,
    logLevel: 'info',
  });
});

t.test('an empty variable counts as unset, save SPOOL_DIR, where it turns the spool off', async (t) => {
  const config = readConfig({ PORT: '', DATABASE_URL: '', SPOOL_DIR: '' }, isTimeZone);
  t.match(config, { port: 8080, databaseUrl: null, spoolDir: null });
  t.equal(readConfig({ DATA_DIR: '/var/lib/tollgate' }, isTimeZone).spoolDir, '/var/lib/tollgate/spool');
});

t.test('all mistakes are told at once, one line each', async (t) => {
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

t.test('the variables of OpenTelemetry mean what they mean elsewhere', async (t) => {
  const config = readConfig(
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/',
      OTEL_EXPORTER_OTLP_HEADERS: 'Authorization=Bearer%20a%2Cb, x-tenant = one=two,',
      OTEL_SERVICE_NAME: 'gate',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    },
    isTimeZone,
  );
  t.equal(config.otlpUrl?.href, 'http://collector:4318/');
  t.same(config.otlpHeaders, { authorization: 'Bearer a,b', 'x-tenant': 'one=two' });
  t.match(config, { serviceName: 'gate', traceShare: 0.25 });
  t.match(readConfig({}, isTimeZone), { otlpUrl: null, otlpHeaders: {}, traceShare: 1 });
  const secret = 'hunter2';
  const found = mistakes({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://me:${secret}@collector:4318`,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization: ${secret}`,
    OTEL_TRACES_SAMPLER_ARG: '2',
  });
  t.same(
    found.map((line) => line.split(':')[0]),
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_TRACES_SAMPLER_ARG'],
  );
  t.notMatch(found.join(), secret);
  for (const headers of ['a=%', 'a=%c3%bc', 'a=b%0d%0ac', 'a b=c', '=c']) {
    t.equal(mistakes({ OTEL_EXPORTER_OTLP_HEADERS: headers }).length, 1, headers);
  }
  for (const share of ['-1', '1.5', 'all', '1e-1', '.']) {
    t.equal(mistakes({ OTEL_TRACES_SAMPLER_ARG: share }).length, 1, share);
  }
});

t.test('FAST_HTTP is on unless it is switched off', async (t) => {
  t.equal(readConfig({}, isTimeZone).fastHttp, true);
  t.equal(readConfig({ FAST_HTTP: 'off' }, isTimeZone).fastHttp, false);
  t.match(mistakes({ FAST_HTTP: 'no' }), ['FAST_HTTP: must be on or off, not "no"']);
});

t.test('the configuration cannot be changed afterwards', async (t) => {
  t.throws(() => Object.assign(readConfig({}, isTimeZone), { port: 1 }), TypeError);
});

t.test('the help tells every variable within 100 columns', async (t) => {
  const help = describeConfig();
  for (const { name } of VARIABLES) t.match(help, new RegExp(`^  ${name} `, 'm'));
  for (const line of help.split('\n')) t.ok(line.length <= 100, line);
});
