import { hash, randomBytes } from 'node:crypto';
import { get } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { addDays, addMonths } from '../../src/domain/reports/day-range.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { insertSession } from '../../src/store/users/session.ts';
import { insertUser } from '../../src/store/users/user.ts';
import { freePort } from '../../test/support/port.ts';
import { until } from '../../test/support/until.ts';
import { type Figures, reading } from '../results.ts';
import { fillPages, idOf } from '../run/pages-data.ts';
import type { Bench, Section } from '../run/rounds.ts';
import { startGateway, type Target } from '../run/targets.ts';
import { type Column, figures, medians, number } from '../tables.ts';

const SETUP_MS = 60_000;
/** Pages that take longer stand in the report; all of them in results.json. */
const SLOW_MS = 150;

/** Every page over many companies, keys and ledger rows. A page's name is the name of its series. */
export const pages: Section = {
  heading: 'Pages with many companies, keys and ledger rows',
  async start(bench) {
    const { companies, ledgerRows } = bench;
    const data = { companies, keys: Math.ceil(companies / 2), ledgerRows };
    bench.say(
      `filling a database with ${companies} companies, ${data.keys} keys in one and ${ledgerRows} ledger rows`,
    );
    const databaseUrl = await bench.server.seeded((db) => fillPages(db, data, bench.say));
    const adminPort = await freePort();
    // without the probe: the pages' process would load it too
    const gateway = await startGateway(
      { ...bench, databaseUrl },
      { flags: [], env: { ADMIN_PORT: `${adminPort}` } },
    );
    const target = {
      ...gateway,
      baseUrl: `http://127.0.0.1:${adminPort}`,
      headers: { cookie: await signIn(databaseUrl) },
    };
    // the first request starts the pages' process
    await until(async () => (await fetch(target.baseUrl, target)).ok, 'the overview');
    return [target];
  },
  steps: (bench) => [
    {
      name: 'pages',
      warmSeconds: 1,
      async measure(target) {
        const figures: Record<string, Figures> = {};
        for (const [name, path] of Object.entries(pathsOf(new Date().toISOString().slice(0, 10)))) {
          figures[name] = await fetchPage(bench, target, path);
        }
        return figures;
      },
    },
  ],
  ownTime: true,
  note: ({ companies, ledgerRows }) =>
    `${companies.toLocaleString('en')} companies, ${Math.ceil(companies / 2).toLocaleString('en')} keys in one of them that use each of 20 models; ${ledgerRows.toLocaleString('en')} ledger rows of five months, an eighth of them of that company. Each page is fetched once a round, alone; the gateway has core 0, Postgres the rest.`,
  table: (results) => {
    const names = Object.keys(results.series);
    const slow = names.filter((name) => {
      return (reading(results, name, 'gateway', 'ms')?.median ?? 0) >= SLOW_MS;
    });
    const best = (kind: string): Column => {
      return (results, series, target) =>
        number(reading(results, series, target, kind)?.low ?? Number.NaN);
    };
    const shown = (label: string, of: readonly string[]): string =>
      figures(
        results,
        label,
        of.map((name) => [name, name, 'gateway'] as const),
        {
          'best ms': best('ms'),
          'median ms': medians('ms'),
          'CPU ms of Postgres, best': best('postgres'),
          KB: medians('kb'),
          'KB compressed': medians('gzip'),
        },
      );
    return [shown(`page of ${SLOW_MS} ms or more, in the median`, slow), shown('page', names)];
  },
};

async function fetchPage(
  { server }: Bench,
  { baseUrl, headers }: Target,
  path: string,
): Promise<Figures> {
  const before = server.cpuMicros();
  const began = performance.now();
  const response = await fetch(baseUrl + path, { headers });
  const body = await response.arrayBuffer();
  const ms = performance.now() - began;
  if (response.status !== 200) throw new Error(`${path} answers ${response.status}`);
  return {
    ms,
    postgres: (server.cpuMicros() - before) / 1000,
    kb: body.byteLength / 1000,
    gzip: (await sentBytes(baseUrl + path, headers)) / 1000,
  };
}

/** Bytes of the body of an answer as it is sent to a browser, which takes it compressed. */
function sentBytes(url: string, headers: Target['headers']): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const asked = get(url, { headers: { ...headers, 'accept-encoding': 'gzip' } });
  asked.on('error', reject);
  asked.on('response', (answer) => buffer(answer).then(({ length }) => resolve(length), reject));
  return promise;
}

/** Signs an operator in without a password. @returns the cookie */
export async function signIn(databaseUrl: string): Promise<string> {
  const db = openDatabase({ url: databaseUrl, maxConnections: 1 });
  const token = randomBytes(32).toString('base64url');
  await db.run(SETUP_MS, async (sql) => {
    const { id } = await insertUser(
      sql,
      { email: 'bench@example.com', role: 'operator', company_id: null },
      null,
    );
    await insertSession(sql, { digest: hash('sha256', token, 'buffer'), userId: id });
  });
  await db.close();
  return `tollgate=${token}`;
}

/** The path of each page that is measured. @param today "2026-11-22" */
export function pathsOf(today: string): Readonly<Record<string, string>> {
  const company = `/companies/${idOf('company 0')}`;
  const key = idOf('key 1');
  const lastMonth = addMonths(today, -1);
  const days = (from: string, to = today) => `from=${from}&to=${to}`;
  const weeks = `${days(addDays(today, -7), addDays(today, -1))}&before_from=${addDays(today, -14)}&before_to=${addDays(today, -8)}`;
  const day = `${days(addDays(today, -1), addDays(today, -1))}&before_from=${addDays(today, -8)}&before_to=${addDays(today, -8)}`;
  const halves = days(addDays(addMonths(today, -3), 15), addDays(lastMonth, 15));
  return {
    overview: '/',
    'usage of all companies, this month': '/usage',
    '– all, 30 days': `/usage?${days(addDays(today, -29))}`,
    '– all, 60 days': `/usage?${days(addDays(today, -59))}`,
    'change of all companies, a week': `/usage?${weeks}`,
    '– all, a day': `/usage?${day}`,
    '– all, last month': `/usage?month=${lastMonth.slice(0, 7)}&against=before`,
    'all companies by model': `/usage?by=company&and=model&${days(addDays(today, -29))}`,
    'all models by day': `/usage?by=model&and=day&${days(addDays(today, -29))}`,
    companies: '/companies',
    'companies by spend': '/companies?sort=-spent',
    'companies by refused requests of today': '/companies?sort=-refused',
    'companies by the last call': '/companies?sort=-called',
    'companies near their budget': '/companies?show=near',
    'companies searched for': '/companies?q=Company+77',
    'a new company': '/companies/new',
    margin: '/margin',
    'month-end': '/month-end',
    'margin of a month with a new cost price': `/margin?month=${lastMonth.slice(0, 7)}`,
    'searched for everywhere': '/search?q=Company+77',
    prices: '/models',
    'models to offer': '/models/new',
    'prices of a model': `/models/${idOf('model 1')}`,
    users: '/users',
    'audit log': '/audit',
    requests: '/requests',
    'requests that failed': '/requests?status=failed',
    alerts: '/events?kind=budget',
    'usage of the large company, this month': `${company}/usage`,
    '– last month': `${company}/usage?month=${lastMonth.slice(0, 7)}`,
    '– yesterday': `${company}/usage?${days(addDays(today, -1), addDays(today, -1))}`,
    '– 60 days': `${company}/usage?${days(addDays(today, -59))}`,
    '– a month and two halves': `${company}/usage?${halves}`,
    '– a year': `${company}/usage?${days(addDays(today, -364))}`,
    '– this month, one model': `${company}/usage?model=model-05`,
    '– this month, one endpoint': `${company}/usage?endpoint=responses`,
    '– this month, one key': `${company}/usage?key=${key}`,
    '– 60 days, one key': `${company}/usage?key=${key}&${days(addDays(today, -59))}`,
    'its change, a week': `${company}/usage?${weeks}`,
    '– last month, a change': `${company}/usage?month=${lastMonth.slice(0, 7)}&against=before`,
    '– one key, a change': `${company}/usage?key=${key}&${weeks}`,
    'its models by key': `${company}/usage?by=model&and=key&${days(addDays(today, -29))}`,
    'its models by day': `${company}/usage?by=model&and=day&${days(addDays(today, -29))}`,
    'its keys by day': `${company}/usage?by=key&and=day&${days(addDays(today, -29))}`,
    'its cost centres': `${company}/cost-centers`,
    'its end users': `${company}/end-users`,
    'calls that name no cost centre': `${company}/usage?cost_center=%20`,
    'its keys': `${company}/keys`,
    'its keys by cost': `${company}/keys?sort=-cost`,
    'one of its keys': `${company}/keys/${key}`,
    'its users': `${company}/users`,
    'its requests': `${company}/requests`,
    'its models': `${company}/models`,
    'its audit log': `${company}/audit`,
    'its assistants': `${company}/assistants`,
    'its settings': `${company}/settings`,
    'usage of a small company': `/companies/${idOf('company 1')}/usage`,
  };
}
