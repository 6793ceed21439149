import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { PLAIN_CSV } from '../../../src/domain/documents/csv.ts';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { daysIn, wholeMonth } from '../../../src/domain/reports/day-range.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { readCompanyUsage, readPresentMonth } from '../../../src/store/usage/company-usage.ts';
import { NO_FILTERS } from '../../../src/store/usage/cube.ts';
import { copyLedger } from '../../../src/store/usage/export.ts';
import { until } from '../../support/until.ts';
import { type Page, signedIn, startOffice } from '../people.ts';
import { insertUsage } from '../rows.ts';

/** The usage of a month equals the ledger in every grouping, and so does its export. */

const office = await startOffice(t);
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const company = office.customer.company;
const others = [randomUUID(), randomUUID()];
const month = `${new Date().toISOString().slice(0, 7)}-01`;
const [ownKey] = await office.sql`select id from api_keys where company_id = ${company}`;
await db.run(60_000, (sql) =>
  insertUsage(sql, {
    companies: [company, ...others],
    keys: [ownKey?.id, randomUUID()],
    rows: 3000,
    seed: 1,
    month,
  }),
);

const read = (id: string) =>
  db.run(60_000, async (sql) =>
    readCompanyUsage(sql, id, wholeMonth(await readPresentMonth(sql)), NO_FILTERS),
  );
const eur = (lines: readonly { cost_eur: string }[]) =>
  formatEur(lines.reduce((sum, { cost_eur }) => sum + parseEur(cost_eur), 0n));
const requests = (lines: readonly { requests: number }[]) =>
  lines.reduce((sum, each) => sum + each.requests, 0);

t.test('every table and the chart add up to the ledger, to the last digit', async (t) => {
  const usage = await read(company);
  const [ledger] = await office.sql`
    select count(*)::integer as requests, trim_scale(sum(cost_eur))::text as eur, sum(prompt_tokens)::integer as prompt,
      count(*) filter (where usage_source = 'estimated')::integer as estimated,
      count(*) filter (where outcome <> 'completed')::integer as unfinished
    from api_usage where company_id = ${company}`;
  t.equal(usage.api_cost_eur, ledger?.eur);
  t.ok((ledger?.eur.split('.')[1] ?? '').length > 8, 'there are digits to lose');
  t.equal(usage.requests, ledger?.requests);
  t.equal(usage.prompt_tokens, ledger?.prompt);
  const { by_model, by_key, by_endpoint, by_cost_center, by_ending, by_time } = usage;
  const tables = { by_model, by_key, by_endpoint, by_cost_center };
  for (const [name, lines] of [
    ...Object.entries(tables).map(([name, { lines }]) => [name, lines] as const),
    ...Object.entries({ by_ending, by_time }),
  ]) {
    t.equal(eur(lines), ledger?.eur, name);
    t.equal(requests(lines), ledger?.requests, name);
  }
  for (const { count, lines } of Object.values(tables)) {
    t.equal(count, lines.length);
    const sum = (part: 'estimated' | 'unfinished') =>
      lines.reduce((all, each) => all + each[part], 0);
    t.equal(sum('estimated'), ledger?.estimated);
    t.equal(sum('unfinished'), ledger?.unfinished);
  }
  t.same(
    usage.by_model.lines.map(({ cost_eur }) => parseEur(cost_eur)),
    usage.by_model.lines.map(({ cost_eur }) => parseEur(cost_eur)).sort((a, b) => (a > b ? -1 : 1)),
    'dearest first',
  );
  t.same(
    usage.by_key.lines.map(({ name }) => name).sort(),
    [null, 'test'].sort(),
    'a key that is gone still counts',
  );
});

t.test('no key has the nil id, under which the hours of all keys are kept', async (t) => {
  const NIL = '00000000-0000-0000-0000-000000000000';
  const { from } = wholeMonth(month);
  for (const range of [wholeMonth(month), { from, to: from }]) {
    const usage = await db.run(60_000, (sql) =>
      readCompanyUsage(sql, company, range, { ...NO_FILTERS, key: NIL }),
    );
    t.match(usage, { requests: 0, by_time: { length: 0 } });
  }
  const page = await (await signedIn(office, 'owner')).get(
    `/companies/${company}/usage?key=${NIL}`,
  );
  t.equal(page.status, 200);
});

t.test('in-app chat counts toward the budget, and is told apart', async (t) => {
  await office.sql`insert into chat_usage (company_id, cost_eur) values (${company}, 0.25)`;
  const before = await read(company);
  t.equal(before.chat_cost_eur, '0.25');
  t.equal(before.budget.total_percent, null, 'without a budget there is no share of it');
  await office.sql`update companies set monthly_budget_eur = 1 where id = ${company}`;
  const usage = await read(company);
  t.equal(usage.budget.chat_percent, 25);
  t.equal(parseEur(usage.total_cost_eur), parseEur(usage.api_cost_eur) + parseEur('0.25'));
  await office.sql`update companies set monthly_budget_eur = 0 where id = ${company}`;
  t.equal((await read(company)).budget.budget_eur, null, '0 is unlimited');
});

t.test(
  'in-app chat of a month that no calendar of pages has is kept, and hides nothing',
  async (t) => {
    const { company } = await office.newCustomer();
    const times = [
      'infinity',
      '-infinity',
      '0044-03-15 12:00:00+00 BC',
      '58881-01-01 12:00:00+00',
      '2025-03-15 12:00:00+00',
    ];
    for (const at of times) {
      await office.sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, ${at}::text::timestamptz, 1)`;
    }
    const page = await (await signedIn(office, 'operator')).get(`/companies/${company}/usage`);
    t.equal(page.status, 200);
    t.same((await read(company)).months, [month, '2025-03-01']);
  },
);

t.test(
  'the exported sums have in-app chat as well where the page shows it, refunds too',
  async (t) => {
    const { company } = await office.newCustomer();
    const operator = await signedIn(office, 'operator');
    const chat = async (query: string) => {
      const { text } = await operator.get(`/companies/${company}/usage.csv?by=total&${query}`);
      return text.split('\n').filter((line) => line.startsWith('chat,'));
    };
    const whole = `month=${month.slice(0, 7)}`;
    t.same(await chat(whole), ['chat,,,,0']);
    await office.sql`insert into chat_usage (company_id, cost_eur) values (${company}, -0.30000000000000004)`;
    t.same(await chat(whole), ['chat,,,,-0.30000000000000004']);
    t.same(await chat(`${whole}&model=solid`), [], 'not known with a filter');
    t.same(await chat(`from=${month}&to=${month}`), [], 'nor for a part of a month');
  },
);

t.test(
  'a budget is reached when all of it is spent, and not when the rest is rounded away',
  async (t) => {
    const { company } = await office.newCustomer();
    await office.sql`update companies set monthly_budget_eur = 1000 where id = ${company}`;
    const operator = await signedIn(office, 'operator');
    const page = async (spent: string) => {
      await office.sql`insert into chat_usage (company_id, cost_eur) values (${company}, ${spent})`;
      return (await operator.get(`/companies/${company}/usage`)).text;
    };
    const nearly = await page('999.99');
    t.match(nearly, '99.9%');
    t.notMatch(nearly, 'reached: calls get 402', 'a cent is left');
    t.match(await page('0.01'), 'reached: calls get 402');
  },
);

t.test(
  'the forecast goes on at the pace so far; the budget is that of the present month, whatever is shown',
  async (t) => {
    const { budget, total_cost_eur } = await read(company);
    t.equal(budget.spent_eur, total_cost_eur);
    const elapsed = (Date.now() - Date.parse(`${month}T00:00:00Z`)) / 86_400_000;
    if (elapsed < 2) t.equal(budget.forecast_eur, null);
    else {
      const expected = (Number(total_cost_eur) * daysIn(wholeMonth(month))) / elapsed;
      t.ok(
        Math.abs(Number(budget.forecast_eur) - expected) < 0.02,
        `${budget.forecast_eur} is about ${expected}`,
      );
    }
    const past = await db.run(60_000, (sql) =>
      readCompanyUsage(sql, company, wholeMonth('2020-02-01'), NO_FILTERS),
    );
    t.match(past, {
      requests: 0,
      total_cost_eur: '0',
      chat_cost_eur: '0',
      budget: { month, spent_eur: budget.spent_eur },
    });
    t.ok(past.months.includes(month));
  },
);

/** Lines of CSV by the names in its heading. */
function parsed(text: string): Record<string, string>[] {
  const [heading = '', ...lines] = text.replace('\ufeff', '').trim().split('\n');
  const names = heading.split(',');
  return lines.map((line) =>
    Object.fromEntries(line.split(',').map((cell, at) => [names[at], cell])),
  );
}

t.test(
  'the export of rows is the ledger, without internal names for those who may not see them',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const { headers, text } = await owner.get(
      `/companies/${company}/ledger.csv?month=${month.slice(0, 7)}`,
    );
    t.match(headers.get('content-disposition'), `filename="ledger-${month.slice(0, 7)}.csv"`);
    t.notMatch(text.split('\n')[0], 'upstream_model');
    const rows = parsed(text) as { cost_eur: string }[];
    t.equal(rows.length, 1000);
    t.equal(eur(rows), (await read(company)).api_cost_eur);
    const operator = await signedIn(office, 'operator');
    t.match(
      (await operator.get(`/companies/${company}/ledger.csv`)).text.split('\n')[0],
      'upstream_model',
    );
  },
);

t.test('the export of sums is what the page shows', async (t) => {
  const owner = await signedIn(office, 'owner');
  const exported = async (by: string) => {
    const path = `/companies/${company}/usage.csv?month=${month.slice(0, 7)}&model=solid&by=${by}`;
    const { headers, text } = await owner.get(path);
    t.match(
      headers.get('content-disposition'),
      `filename="usage-by-${by.replace('_', '-')}-${month.slice(0, 7)}.csv"`,
    );
    return parsed(text) as Record<'model' | 'day' | 'cost_eur' | 'requests', string>[];
  };
  const range = wholeMonth(month);
  const usage = await db.run(60_000, (sql) =>
    readCompanyUsage(sql, company, range, { ...NO_FILTERS, model: 'solid' }),
  );
  for (const by of ['total', 'time', 'model', 'key', 'endpoint', 'cost_center', 'ending']) {
    t.equal(eur(await exported(by)), usage.api_cost_eur, `the sum of the column, by ${by}`);
  }
  t.same(
    (await exported('model')).map(({ model }) => model),
    ['solid'],
  );
  t.same(
    (await exported('time')).map(({ day, model, requests }) => [day, model, Number(requests)]),
    usage.by_time.map(({ at, model, requests }) => [at, model, requests]),
  );
});

t.test(
  'what cannot be in the address is refused in words, or not found; nothing of it reaches SQL as code',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const at = (path: string, query: string) => owner.get(`/companies/${company}/${path}?${query}`);
    for (const path of ['usage', 'usage.csv', 'ledger.csv']) {
      for (const odd of ['2026-13', 'x', "2026-01'--"]) {
        t.equal((await at(path, `month=${encodeURIComponent(odd)}`)).status, 404, odd);
      }
      for (const odd of [
        "model='",
        'model=%00',
        'key=1',
        'endpoint=toString',
        'cost_center=%00',
        `cost_center=${'x'.repeat(200)}`,
      ]) {
        t.equal((await at(path, odd)).status, 404, odd);
      }
      for (const fine of [
        'cost_center=%27;%20--',
        'cost_center=%5C%27',
        'model=constructor',
        'cost_center=%20',
        'from=&to=&model=',
        'foo=bar',
      ]) {
        t.equal((await at(path, fine)).status, 200, fine);
      }
    }
    for (const [odd, message] of [
      ['from=2026-02-30', 'First day must be a date such as 2026-11-21'],
      ["from=2026-01-01&to='", 'Last day must be a date'],
      ['from=2026-01-02&to=2026-01-01', 'Last day must not be before the first day'],
      ['from=1990-01-01&to=2026-01-01', 'Last day must be within five years of the first day'],
      ['from=2026-01-01&to=%3Cscript%3E', 'Last day must be a date'],
    ] as const) {
      const { status, text } = await at('usage', odd);
      t.equal(status, 422, odd);
      t.match(text, message);
      t.notMatch(text, '<script>');
      t.equal((await at('usage.csv', odd)).status, 404, odd);
      t.equal((await at('ledger.csv', odd)).status, 404, odd);
    }
  },
);

t.test('a connection is as good as new after an export, however slow its reader', async (t) => {
  const single = openDatabase({ url: office.databaseUrl, maxConnections: 1 });
  t.teardown(() => single.close());
  const asked = {
    companyId: company,
    range: wholeMonth(month),
    filters: NO_FILTERS,
    internal: true,
    form: PLAIN_CSV,
  };
  for (let round = 0; round < 5; round++) {
    let bytes = 0;
    await single.run(60_000, (sql) =>
      copyLedger(sql, asked, async (piece) => {
        bytes += piece.length;
        if (round > 0) await sleep(bytes % 3); // slow on purpose
        return true;
      }),
    );
    t.ok(bytes > 100_000);
    const [row] = await single.run(60_000, (sql) => sql`select ${round}::integer as round`);
    t.equal(row?.round, round);
  }
});

t.test('pages never read the ledger itself, however large it is', async (t) => {
  const owner = await signedIn(office, 'owner');
  await office.sql.begin(async (sql) => {
    await sql`lock table api_usage in access exclusive mode`;
    for (const page of ['usage', 'keys']) {
      t.equal((await owner.get(`/companies/${company}/${page}`)).status, 200, page);
    }
  });
});

t.test('HEAD of an export runs none', async (t) => {
  const owner = await signedIn(office, 'owner');
  const cookie = [...owner.cookies].map((pair) => pair.join('=')).join('; ');
  const path = `${office.adminUrl}/companies/${company}/ledger.csv`;
  for (let round = 0; round < 5; round++) {
    const { status, headers } = await fetch(path, { method: 'HEAD', headers: { cookie } });
    t.equal(status, 200);
    t.match(headers.get('content-disposition'), 'attachment');
  }
  t.equal(
    (await owner.get(`/companies/${company}/ledger.csv`)).status,
    200,
    'all permits are free',
  );
});

t.test('an export whose reader leaves gives back its connection and its permit', async (t) => {
  const owner = await signedIn(office, 'owner');
  await db.transaction(60_000, async (sql) => {
    await sql`set local session_replication_role = replica`; // without the triggers that count
    await insertUsage(sql, {
      companies: [company],
      keys: [ownKey?.id],
      rows: 60_000,
      seed: 2,
      month,
    });
  });
  const cookie = [...owner.cookies].map((pair) => pair.join('=')).join('; ');
  const path = `${office.adminUrl}/companies/${company}/ledger.csv`;
  for (let round = 0; round < 8; round++) {
    const leave = new AbortController();
    const { body } = await fetch(path, { headers: { cookie }, signal: leave.signal });
    await body?.getReader().read();
    leave.abort();
  }
  const whole = await until(
    () => owner.get(`/companies/${company}/ledger.csv`),
    'an export is permitted again',
    ({ status }) => status === 200,
  );
  t.equal(whole.text.trim().split('\n').length, 61_001);
  t.equal((await owner.get(`/companies/${company}/usage`)).status, 200);
});

t.test('an export that fails destroys the connection: a part must not look complete', async (t) => {
  const owner = await signedIn(office, 'owner');
  const cookie = [...owner.cookies].map((pair) => pair.join('=')).join('; ');
  const copying = office.sql`
    datname = current_database() and query like 'copy (with%' and state = 'active'`;
  const idle = async () =>
    (await office.sql`select from pg_stat_activity where ${copying}`).length === 0;
  await until(idle, 'the exports of the tests before have ended');
  // in each row: so much more than the sockets between it and its reader hold
  await office.sql`update api_keys set name = ${'Newsroom '.repeat(22)} where id = ${ownKey?.id}`;
  const { status, body } = await fetch(`${office.adminUrl}/companies/${company}/ledger.csv`, {
    headers: { cookie },
  });
  t.equal(status, 200);
  const reader = body?.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  await reader.read();
  await until(
    () => office.sql`select pg_terminate_backend(pid) from pg_stat_activity where ${copying}`,
    'it runs, and is ended',
    ({ length }) => length === 1,
  );
  const readAll = async () => {
    while (!(await reader.read()).done);
  };
  await t.rejects(readAll());
  t.equal((await owner.get(`/companies/${company}/ledger.csv`)).status, 200, 'the next one works');
});

t.test('an export that is refused because others run is a page and no file', async (t) => {
  const owner = await signedIn(office, 'owner');
  const path = `/companies/${company}/ledger.csv`;
  let exports: Promise<Page>[] = [];
  await office.sql.begin(async (sql) => {
    await sql`lock table api_usage in access exclusive mode`; // the exports wait for it
    exports = Array.from({ length: 3 }, () => owner.get(path));
    const { status, headers, text } = await Promise.race(exports);
    t.equal(status, 503, 'one company runs two at once');
    t.match(headers.get('content-type'), 'text/html');
    t.equal(headers.get('content-disposition'), null);
    t.match(text, 'Try again in a moment');
  });
  t.same((await Promise.all(exports)).map(({ status }) => status).sort(), [200, 200, 503]);
});
