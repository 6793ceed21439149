import { readMonth } from '../../domain/field.ts';
import {
  costsText,
  type DetailedMargin,
  readDetailedMargin,
  type ToldSums,
} from '../../store/usage/margin.ts';
import { marginCsv } from '../../store/usage/margin-csv.ts';
import { command, flag, optional } from '../frame/command.ts';
import { csvForm, spreadsheet } from '../frame/spreadsheet.ts';
import { listing, plainly, sections } from '../frame/text.ts';

type Sums = DetailedMargin['total'];

const SUMS = {
  ...plainly('requests', 'revenue_eur', 'cost_eur', 'margin_eur'),
  'MARGIN %': ({ margin_percent }: Sums) => margin_percent,
  'WITHOUT COST': ({ uncosted_eur }: Sums) => uncosted_eur,
};
/** Shown where upstreams told any. */
const COST = {
  "UPSTREAM'S COST": ({ upstream }: ToldSums) => upstream && costsText(upstream),
  'IN EUR': ({ upstream }: ToldSums) => upstream?.cost_eur,
  'OF CALLS': ({ upstream }: ToldSums) => upstream?.requests ?? 0,
  "MARGIN BY UPSTREAM'S COST": ({ upstream }: ToldSums) => upstream?.margin_eur,
};
const CACHED = { 'CACHED %': ({ cached_percent }: ToldSums) => cached_percent };
const NUMBERS = Object.keys({ ...SUMS, ...COST, ...CACHED });

export const marginCommand = command({
  name: 'usage margin',
  summary: "show a month's revenue, cost and margin of all companies",
  options: {
    month: optional(
      '--month YYYY-MM',
      readMonth,
      'month to show; default: the current one in the billing time zone',
    ),
    csv: flag('--csv', 'one line for each company and model, as CSV'),
    spreadsheet,
  },
  notes: `Revenue is that of the ledger. Cost is tokens × the cost price of the day ("tollgate model cost"). EUR amounts are exact.
Calls without a cost price are in neither cost nor margin; WITHOUT COST is their revenue.
Where the upstream reports its own cost, more columns show it: as reported, and in EUR if it is in EUR or UPSTREAM_RATE says what one unit of UPSTREAM_CURRENCY is worth. OF CALLS is how many calls have such a cost, and MARGIN BY UPSTREAM'S COST is their revenue less that cost. CACHED % is the share of the prompt tokens that came from the upstream's cache, of the calls for which it reports this.`,
  async run({ read, config, json }, { month, csv, spreadsheet }) {
    const form = csvForm(csv, spreadsheet, json);
    const { upstreamCurrency: currency, upstreamRate: rate } = config;
    const margin = await read((sql) => readDetailedMargin(sql, month ?? null, { currency, rate }));
    if (form !== null) return { print: (write) => write(marginCsv(margin, form)) };
    return { json: margin, text: show(margin) };
  },
});

function show({ month, total, by_model, by_company, without_cost, told }: DetailedMargin): string {
  const sums = { ...SUMS, ...(told.cost ? COST : {}), ...(told.cached ? CACHED : {}) };
  return sections(
    listing([total], { [`ALL OF ${month.slice(0, 7)}`]: () => 'total', ...sums }, '', NUMBERS),
    listing(by_model, { MODEL: ({ model }) => model, ...sums }, '', NUMBERS),
    listing(
      by_company,
      { COMPANY: ({ company_name, company_id }) => company_name ?? company_id, ...sums },
      '',
      NUMBERS,
    ),
    without_cost.length === 0
      ? ''
      : `Without a cost price: ${without_cost.join(', ')}. Set it with "tollgate model cost".`,
  );
}
