import { type CsvColumns, type CsvForm, csvFile, decimal } from '../../domain/documents/csv.ts';
import { costsText, type DetailedMargin } from './margin.ts';

type Line = DetailedMargin['lines'][number];

/** Columns of the CSV after the month. */
const COLUMNS: CsvColumns<Line> = {
  company_id: (line) => line.company_id,
  company_name: (line) => line.company_name,
  model: (line) => line.model,
  requests: (line) => line.requests,
  revenue_eur: (line) => decimal(line.revenue_eur),
  cost_eur: (line) => decimal(line.cost_eur),
  margin_eur: (line) => decimal(line.margin_eur),
  margin_percent: (line) => line.margin_percent,
  uncosted_eur: (line) => decimal(line.uncosted_eur),
  cached_percent: (line) => line.cached_percent,
  upstream_requests: ({ upstream }) => upstream?.requests,
  upstream_revenue_eur: ({ upstream }) => decimal(upstream?.revenue_eur),
  upstream_cost: ({ upstream }) => upstream && costsText(upstream),
  upstream_cost_eur: ({ upstream }) => decimal(upstream?.cost_eur),
};

/** One line for each company and model, with exact amounts. The margin must have been read with all its lines. */
export function marginCsv({ month, lines }: DetailedMargin, form: CsvForm): string {
  return csvFile({ month: () => month.slice(0, 7), ...COLUMNS }, lines, form);
}
