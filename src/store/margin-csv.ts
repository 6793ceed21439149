import { csvLine, harmless } from '../domain/csv.ts';
import { costsText, type DetailedMargin } from './margin-details.ts';

type Line = DetailedMargin['lines'][number];

/** Columns of the CSV after the month. */
const CSV: Readonly<Record<string, (line: Line) => string | number | null | undefined>> = {
  company_id: (line) => line.company_id,
  company_name: (line) => line.company_name && harmless(line.company_name),
  model: (line) => line.model,
  requests: (line) => line.requests,
  revenue_eur: (line) => line.revenue_eur,
  cost_eur: (line) => line.cost_eur,
  margin_eur: (line) => line.margin_eur,
  margin_percent: (line) => line.margin_percent,
  uncosted_eur: (line) => line.uncosted_eur,
  cached_percent: (line) => line.cached_percent,
  upstream_requests: ({ upstream }) => upstream?.requests,
  upstream_revenue_eur: ({ upstream }) => upstream?.revenue_eur,
  upstream_cost: ({ upstream }) => upstream && costsText(upstream),
  upstream_cost_eur: ({ upstream }) => upstream?.cost_eur,
};

/** One line for each company and model, with exact amounts. */
export function marginCsv({ month, lines }: DetailedMargin): string {
  const cells = (line: Line) => Object.values(CSV).map((cell) => String(cell(line) ?? ''));
  const rows = lines.map((line) => [month.slice(0, 7), ...cells(line)]);
  return [['month', ...Object.keys(CSV)], ...rows].map(csvLine).join('\n');
}
