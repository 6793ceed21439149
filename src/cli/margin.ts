import { readMonth } from '../domain/field.ts';
import {
  type CompanyMargin,
  type MarginMonth,
  type MarginSums,
  type ModelMargin,
  readMargin,
} from '../store/margin.ts';
import { type Command, command, flag, optional } from './command.ts';
import { csvLine } from './csv.ts';
import { listing, orDash } from './text.ts';

const SUMS = {
  REQUESTS: ({ requests }: MarginSums) => String(requests),
  'REVENUE EUR': ({ revenue_eur }: MarginSums) => revenue_eur,
  'COST EUR': ({ cost_eur }: MarginSums) => orDash(cost_eur),
  'MARGIN EUR': ({ margin_eur }: MarginSums) => orDash(margin_eur),
  '%': ({ margin_percent }: MarginSums) => orDash(margin_percent),
  'WITHOUT COST': ({ uncosted_eur }: MarginSums) => uncosted_eur,
};
const NUMBERS = Object.keys(SUMS);

export const marginCommands: readonly Command[] = [
  command({
    name: 'usage margin',
    summary: "show a month's revenue, cost and margin of all companies",
    options: {
      month: optional('--month YYYY-MM', readMonth, 'month to show; default: the current one in the billing time zone'),
      csv: flag('--csv', 'one line for each company and model, as CSV'),
    },
    notes: `Revenue is that of the ledger. Cost is tokens × the cost price of the day ("model cost"). EUR amounts are exact.
Calls without a cost price are in neither cost nor margin; their revenue is the last column.`,
    async run({ read }, { month, csv }) {
      const margin = await read((sql) => readMargin(sql, month ?? null));
      return { json: margin, text: csv ? csvOf(margin) : show(margin) };
    },
  }),
];

function show({ month, total, by_model, by_company, without_cost }: MarginMonth): string {
  const sections = [
    listing([total], { [`ALL OF ${month.slice(0, 7)}`]: () => 'total', ...SUMS }, '', NUMBERS),
    listing(by_model, { MODEL: ({ model }: ModelMargin) => model, ...SUMS }, '', NUMBERS),
    listing(
      by_company,
      { COMPANY: ({ company_name, company_id }: CompanyMargin) => company_name ?? company_id, ...SUMS },
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

function csvOf({ month, lines }: MarginMonth): string {
  const rows = lines.map((line) => {
    const values = line as unknown as Readonly<Record<string, string | number | null>>;
    return [month.slice(0, 7), ...CSV_COLUMNS.map((name) => String(values[name] ?? ''))];
  });
  return [['month', ...CSV_COLUMNS], ...rows].map(csvLine).join('\n');
}
