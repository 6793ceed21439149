import { randomUUID } from 'node:crypto';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { tollgate } from '../../support/cli.ts';
import { beginsFormula, readAs } from '../../support/spreadsheet.ts';
import { closeStatement } from '../../support/statement.ts';
import { addUsage, type SomeUsage } from '../../support/usage.ts';
import { newToken } from '../api/tokens.ts';
import { signedIn, startOffice } from '../people.ts';

/** Every CSV of pages, commands and HTTP, of an installation with many companies and names that somebody chose badly. */

const office = await startOffice(t);
const { sql, adminUrl, databaseUrl } = office;
const db = openDatabase({ url: databaseUrl, maxConnections: 2 });
t.teardown(() => db.close());
const MONTH = '2026-09';
const BAD = [
  'n;=HYPERLINK("http://x")',
  'a,=1+1',
  '=1+1',
  'q;"=1+1',
  'm; -1+1',
  '@SUM(1)',
  'x\t=1',
  'Müller; Łódź, "Süd"',
];

const companies = Array.from({ length: 226 }, (_, at) => ({
  id: randomUUID(),
  name: `${BAD[at % BAD.length]} ${at}`,
}));
const [own] = companies as [{ id: string; name: string }];
const keys = BAD.map((name) => ({ id: randomUUID(), name }));
const rows: SomeUsage[] = [
  ...companies
    .slice(1)
    .map(({ id }, at) => ({ company: id, month: `${MONTH}-01`, prompt: at + 1, input: '0.0025' })),
  ...keys.map(({ id }, at) => ({
    company: own.id,
    key: id,
    month: `${MONTH}-01`,
    model: at % 2 === 0 ? 'fast' : 'slow',
    prompt: 1000 + at,
    input: '13.219',
    center: ['', 'a;=1+1', 'b,@x', '=1', 'Einkauf'][at % 5] as string,
    endpoint: at < 3 ? 'embeddings' : 'responses',
    at: `${MONTH}-${10 + at}T12:00:00Z`,
  })),
  { company: own.id, month: `${MONTH}-01`, key: randomUUID(), prompt: 5, input: '0.000000000001' }, // of a removed key
];
await sql`insert into companies (id, name) select id, name from json_to_recordset(${JSON.stringify(companies)}::text::json) as c (id uuid, name text)`;
await sql`
  insert into api_keys (id, company_id, name, digest, prefix, scopes)
  select id, ${own.id}, name, sha256(id::text::bytea), 'svc_abcd', '{chat}' from json_to_recordset(${JSON.stringify(keys)}::text::json) as k (id uuid, name text)`;
await db.run(60_000, (run) => addUsage(run, rows));
await closeStatement(db, own.id, `${MONTH}-01`);

const operator = await signedIn(office, 'operator');
const cookie = [...operator.cookies].map((pair) => pair.join('=')).join('; ');
const token = await newToken(office);
/** The bytes of a file as UTF-8, with its byte order mark. */
async function bytesOf(
  path: string,
  headers: Record<string, string> = { cookie },
): Promise<string> {
  const answer = await fetch(new URL(path, adminUrl), { headers });
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status}`);
  return Buffer.from(await answer.arrayBuffer()).toString();
}
const run = async (...argv: string[]): Promise<string> => {
  const { code, out, err } = await tollgate(argv, { env: { DATABASE_URL: databaseUrl } });
  if (code !== 0) throw new Error(err);
  return out;
};

const [sum] = await sql<{ all: string; own: string }[]>`
  select trim_scale(sum(cost_eur))::text as all, trim_scale(sum(cost_eur) filter (where company_id = ${own.id}))::text as own
  from api_usage where billing_month = ${`${MONTH}-01`}`;
const usage = `/companies/${own.id}/usage.csv?month=${MONTH}`;
const of = ['--company', own.id, '--month', MONTH];
type Spreadsheet = 'comma' | 'semicolon';
interface Export {
  readonly read: (spreadsheet?: Spreadsheet) => Promise<string>;
  readonly lines: number;
  readonly sum: string | undefined;
  readonly cost?: string;
  /** Ids, and the names that stand beside them. */
  readonly names?: readonly (readonly [string, string])[];
  /** Without a choice it is for programs. */
  readonly isPlain?: true;
}
const page = (path: string) => (spreadsheet?: Spreadsheet) =>
  bytesOf(`${path}${spreadsheet === undefined ? '' : `&spreadsheet=${spreadsheet}`}`);
const command =
  (...argv: string[]) =>
  (spreadsheet?: Spreadsheet) =>
    run(...argv, ...(spreadsheet === undefined ? ['--csv'] : ['--spreadsheet', spreadsheet]));
const KEYS = [['api_key_id', 'api_key_name'] as const, ['company_id', 'company_name'] as const];
const EXPORTS: Readonly<Record<string, Export>> = {
  'margin, page': {
    read: page(`/margin.csv?month=${MONTH}`),
    lines: 227,
    sum: sum?.all,
    cost: 'revenue_eur',
    names: [['company_id', 'company_name']],
  },
  'margin, command': {
    read: command('usage', 'margin', '--month', MONTH),
    lines: 227,
    sum: sum?.all,
    cost: 'revenue_eur',
    names: [['company_id', 'company_name']],
    isPlain: true,
  },
  'usage by model': { read: page(usage), lines: 2, sum: sum?.own },
  'usage by key': {
    read: page(`${usage}&by=key`),
    lines: 9,
    sum: sum?.own,
    names: [['key', 'key_name']],
  },
  'usage by endpoint': { read: page(`${usage}&by=endpoint`), lines: 3, sum: sum?.own },
  'usage by cost centre': { read: page(`${usage}&by=cost_center`), lines: 5, sum: sum?.own },
  'usage by time': { read: page(`${usage}&by=time`), lines: 9, sum: sum?.own },
  'usage by ending': { read: page(`${usage}&by=ending`), lines: 1, sum: sum?.own },
  'usage in total': { read: page(`${usage}&by=total`), lines: 2, sum: sum?.own },
  'ledger, page': {
    read: page(`/companies/${own.id}/ledger.csv?month=${MONTH}`),
    lines: 9,
    sum: sum?.own,
    names: KEYS,
  },
  'ledger, command': {
    read: command('ledger', 'export', ...of),
    lines: 9,
    sum: sum?.own,
    names: KEYS,
    isPlain: true,
  },
  'ledger, HTTP': {
    read: (spreadsheet) => {
      const choice = spreadsheet === undefined ? '' : `&spreadsheet=${spreadsheet}`;
      const headers = { authorization: `Bearer ${token}` };
      return bytesOf(`/api/v1/companies/${own.id}/ledger?month=${MONTH}${choice}`, headers);
    },
    lines: 9,
    sum: sum?.own,
    names: KEYS,
    isPlain: true,
  },
  'statement, page': {
    read: page(`/companies/${own.id}/statements/month.csv?month=${MONTH}`),
    lines: 9,
    sum: sum?.own,
    names: [['key', 'key_name']],
  },
  'statement, command': {
    read: command('statement', ...of),
    lines: 9,
    sum: sum?.own,
    names: [['key', 'key_name']],
    isPlain: true,
  },
};
const nameOf = new Map<string, string>([...companies, ...keys].map(({ id, name }) => [id, name]));
const plainName = (text: string) => text.replaceAll("'", '');

for (const [title, { read, lines, sum, cost = 'cost_eur', names = [], isPlain }] of Object.entries(
  EXPORTS,
)) {
  t.test(
    `${title}: one table with all lines, names beside ids, and no formula in either convention`,
    async (t) => {
      for (const spreadsheet of ['comma', 'semicolon', undefined] as const) {
        const text = await read(spreadsheet);
        const [separator, point] = spreadsheet === 'semicolon' ? [';', ','] : [',', '.'];
        t.equal(
          text.startsWith('\ufeff'),
          spreadsheet !== undefined || !isPlain,
          'a byte order mark',
        );
        const [heading = [], ...records] = readAs(text, separator);
        t.equal(records.length, lines);
        t.ok(
          records.every(({ length }) => length === heading.length),
          'each line has a cell for each column',
        );
        const column = (name: string) => records.map((cells) => cells[heading.indexOf(name)] ?? '');
        const total = column(cost).reduce(
          (all, amount) => all + parseEur(amount.replace(point, '.')),
          0n,
        );
        t.equal(formatEur(total), sum, 'SUM of the column is the cost');
        for (const [id, name] of names) {
          const shown = column(name);
          const known = column(id).map((each) => nameOf.get(each) ?? '');
          t.same(shown.map(plainName), known.map(plainName), `${name} beside ${id}`);
        }
        for (const each of [',', ';', '\t'])
          t.same(readAs(text, each).flat().filter(beginsFormula), [], `read by ${each}`);
      }
    },
  );
}

t.test(
  'a file is written as the page writes its numbers, unless the address chooses',
  async (t) => {
    const heading = async (path: string, language: string) =>
      (await bytesOf(path, { cookie, 'accept-language': language })).split('\n', 1)[0];
    for (const path of [
      `/margin.csv?month=${MONTH}`,
      usage,
      `/companies/${own.id}/ledger.csv?month=${MONTH}`,
    ]) {
      t.match(await heading(path, 'de-DE,en;q=0.5'), /^\ufeff\w+;\w+;/, path);
      t.match(await heading(path, 'en-US'), /^\ufeff\w+,\w+,/, path);
      t.match(await heading(`${path}&spreadsheet=comma`, 'de'), /^\ufeff\w+,\w+,/, path);
      t.equal((await operator.get(`${path}&spreadsheet=tab`)).status, 404);
    }
    t.equal((await operator.get(`${usage}&by=everything`)).status, 404);
  },
);
