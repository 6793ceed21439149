import { readMonth } from '../domain/field.ts';
import {
  costsText,
  type DetailedCompany,
  type DetailedMargin,
  type DetailedModel,
  readDetailedMargin,
  type ToldSums,
} from '../store/margin-details.ts';
import { type Command, command, flag, optional } from './command.ts';
import { csvLine } from './csv.ts';
import { listing, orDash } from './text.ts';

type Sums = DetailedMargin['total'];

const SUMS = {
  REQUESTS: ({ requests }: Sums) => String(requests),
  'REVENUE EUR': ({ revenue_eur }: Sums) => revenue_eur,
  'COST EUR': ({ cost_eur }: Sums) => orDash(cost_eur),
  'MARGIN EUR': ({ margin_eur }: Sums) => orDash(margin_eur),
  '%': ({ margin_percent }: Sums) => orDash(margin_percent),
  'WITHOUT COST': ({ uncosted_eur }: Sums) => uncosted_eur,
};
/** Shown where upstreams told any. */
const COST = {
  "UPSTREAM'S COST": ({ upstream }: ToldSums) => orDash(upstream === null ? null : costsText(upstream)),
  'IN EUR': ({ upstream }: ToldSums) => orDash(upstream?.cost_eur ?? null),
  'OF CALLS': ({ upstream }: ToldSums) => String(upstream?.requests ?? 0),
  "MARGIN BY UPSTREAM'S COST": ({ upstream }: ToldSums) => orDash(upstream?.margin_eur ?? null),
};
const CACHED = { 'CACHED %': ({ cached_percent }: ToldSums) => orDash(cached_percent) };
const NUMBERS = Object.keys({ ...SUMS, ...COST, ...CACHED });

export const marginCommands: readonly Command[] = [
  command({
    name: 'usage margin',
    summary: "show a month's revenue, cost and margin of all companies",
    options: {
      month: optional('--month YYYY-MM', readMonth, 'month to show; default: the current one in the billing time zone'),
      csv: flag('--csv', 'one line for each company and model, as CSV'),
    },
    notes: `Revenue is that of the ledger. Cost is tokens × the cost price of the day ("model cost"). EUR amounts are exact.
Calls without a cost price are in neither cost nor margin; WITHOUT COST is their revenue.
Where the upstream reports its own cost, more columns show it: as reported, and in EUR if it is in EUR or UPSTREAM_RATE says what one unit of UPSTREAM_CURRENCY is worth. OF CALLS is how many calls have such a cost, and MARGIN BY UPSTREAM'S COST is their revenue less that cost. CACHED % is the share of the prompt tokens that came from the upstream's cache, of the calls for which it reports this.`,
    async run({ read, config }, { month, csv }) {
      const { upstreamCurrency: currency, upstreamRate: rate } = config;
      const margin = await read((sql) => readDetailedMargin(sql, month ?? null, { currency, rate }));
      return { json: margin, text: csv ? csvOf(margin) : show(margin) };
    },
  }),
];

function show({ month, total, by_model, by_company, without_cost, told }: DetailedMargin): string {
  const sums = { ...SUMS, ...(told.cost ? COST : {}), ...(told.cached ? CACHED : {}) };
  const sections = [
    listing([total], { [`ALL OF ${month.slice(0, 7)}`]: () => 'total', ...sums }, '', NUMBERS),
    listing(by_model, { MODEL: ({ model }: DetailedModel) => model, ...sums }, '', NUMBERS),
    listing(
      by_company,
      { COMPANY: ({ company_name, company_id }: DetailedCompany) => company_name ?? company_id, ...sums },
      '',
      NUMBERS,
    ),
    without_cost.length === 0
      ? ''
      : `Without a cost price: ${without_cost.join(', ')}. Set it with "tollgate model cost".`,
  ];
  return sections.filter((section) => section !== '').join('\n\n');
}

const CSV_COLUMNS = [
  ...[
    'company_id',
    'company_name',
    'model',
    'requests',
    'revenue_eur',
    'cost_eur',
    'margin_eur',
    'margin_percent',
    'uncosted_eur',
  ],
] as const;
const TOLD_COLUMNS = [
  ...['cached_percent', 'upstream_requests', 'upstream_revenue_eur', 'upstream_cost', 'upstream_cost_eur'],
];

function csvOf({ month, lines }: DetailedMargin): string {
  const rows = lines.map((line) => {
    const values = line as unknown as Readonly<Record<string, string | number | null>>;
    const { cached_percent, upstream } = line;
    const cost = upstream && costsText(upstream);
    const told = [cached_percent, upstream?.requests, upstream?.revenue_eur, cost, upstream?.cost_eur];
    return [
      month.slice(0, 7),
      ...[...CSV_COLUMNS.map((name) => values[name]), ...told].map((value) => String(value ?? '')),
    ];
  });
  return [['month', ...CSV_COLUMNS, ...TOLD_COLUMNS], ...rows].map(csvLine).join('\n');
}
