import { oneOf, readMonth, readUuid } from '../../domain/field.ts';
import { reasonOfCode } from '../../domain/reports/request-explanation.ts';
import { shownDetails, type UsageSums } from '../../domain/usage.ts';
import { findCompany } from '../../store/company/company.ts';
import type { EndUserRow } from '../../store/company/end-user.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { readPresentMonth } from '../../store/usage/company-usage.ts';
import type { DetailSums } from '../../store/usage/details.ts';
import { readUsageByEndUser } from '../../store/usage/end-user.ts';
import { summarizeUsage } from '../../store/usage/summary.ts';
import { command, optional, required } from '../frame/command.ts';
import { type Cell, card, listing, sections, tokenDetails } from '../frame/text.ts';
import { budgetText } from './company.ts';

/** Columns of sums, all of them numbers. PROMPT and COMPLETION are tokens. */
export const SUMS = {
  REQUESTS: ({ requests }: UsageSums) => requests,
  PROMPT: ({ prompt_tokens }: UsageSums) => prompt_tokens,
  COMPLETION: ({ completion_tokens }: UsageSums) => completion_tokens,
  EUR: ({ cost_eur }: UsageSums) => cost_eur,
};
export const NUMBERS = Object.keys(SUMS);

export const usageCommand = command({
  name: 'usage summary',
  summary: "show a company's month by model, endpoint and cost centre",
  options: {
    company: required('--company ID', readUuid, 'company to show'),
    month: optional(
      '--month YYYY-MM',
      readMonth,
      'month to show; default: the current one in the billing time zone',
    ),
    by: optional(
      '--by end-user',
      oneOf('end-user'),
      'show what each person behind a key cost instead',
    ),
  },
  notes:
    'Refused and failed requests cost nothing and are not among the others. EUR amounts are exact. In JSON they are strings, so that no parser rounds them.',
  async run({ read }, { company, month, by }) {
    if (by !== undefined)
      return read((sql) => usageByEndUser(sql, company, month ?? null), company);
    const usage = await read((sql) => summarizeUsage(sql, company, month ?? null), company);
    const centers = usage.by_cost_center;
    const { answers, token_details: details } = usage;
    const labelled = centers.some(({ cost_center }) => cost_center !== '') ? centers : [];
    const text = sections(
      card(`Usage of ${usage.company_name} in ${usage.month}`, {
        requests: usage.requests,
        ...(answers === null ? {} : { refused: answers.refused, failed: answers.failed }),
        'prompt tokens': usage.prompt_tokens,
        'completion tokens': usage.completion_tokens,
        ...(details === null ? {} : detailsOf(details)),
        'EUR API': usage.api_cost_eur,
        'EUR in-app chat': usage.chat_cost_eur,
        'EUR total': usage.total_cost_eur,
        'EUR budget': budgetText(usage.monthly_budget_eur),
        ...(usage.day && {
          'EUR today': `${usage.day.spent_eur} of ${usage.day.budget_eur} (${usage.day.percent} %)`,
        }),
      }),
      listing(usage.by_model, { MODEL: ({ model_slug }) => model_slug, ...SUMS }, '', NUMBERS),
      details === null ? '' : detailsByModel(usage.by_model, details),
      listing(
        answers?.reasons ?? [],
        {
          'REFUSED OR FAILED': ({ code }) => reasonOfCode(code).text,
          CODE: ({ code }) => code,
          STATUS: ({ code }) => reasonOfCode(code).status,
          REQUESTS: ({ requests }) => requests,
        },
        '',
      ),
      listing(usage.by_endpoint, { ENDPOINT: ({ endpoint }) => endpoint, ...SUMS }, '', NUMBERS),
      listing(
        labelled,
        { 'COST CENTRE': ({ cost_center }) => cost_center || '(none)', ...SUMS },
        '',
        NUMBERS,
      ),
    );
    return { json: usage, text };
  },
});

async function usageByEndUser(sql: Sql, company: string, asked: string | null) {
  const month = asked ?? (await readPresentMonth(sql));
  const { name } = await findCompany(sql, company);
  const usage = await readUsageByEndUser(sql, company, month, null);
  const json = { company_id: company, company_name: name, month: month.slice(0, 7), ...usage };
  const columns = { 'END USER': endUserName, ...SUMS, ID: ({ id }: { id: string }) => id };
  const title = `End users of ${name} in ${json.month}, as calls named them: ${usage.count}`;
  return { json, text: sections(title, listing(usage.end_users, columns, '', NUMBERS)) };
}

const endUserName = ({ name }: Pick<EndUserRow, 'name'>) => name ?? '(erased)';

/** The token details of the calls whose upstream told them. */
function detailsOf(details: DetailSums): Record<string, Cell> {
  const { cached_tokens, cached_percent } = details;
  const share = cached_percent === null ? '' : ` (${cached_percent} %)`;
  return {
    ...tokenDetails(details, shownDetails(details)),
    'cached tokens': `${cached_tokens}${share}`,
  };
}

type ModelLine = Awaited<ReturnType<typeof summarizeUsage>>['by_model'][number];

/** The token details of each model whose upstream told some. */
function detailsByModel(models: readonly ModelLine[], total: DetailSums): string {
  const columns = Object.fromEntries(
    shownDetails(total).map((name) => [
      name.replace('_tokens', '').replaceAll('_', ' ').toUpperCase(),
      ({ token_details }: ModelLine) => token_details?.[name] ?? 0,
    ]),
  );
  const told = models.filter(({ token_details }) => token_details !== null);
  const cells = { MODEL: ({ model_slug }: ModelLine) => model_slug, ...columns };
  return listing(told, cells, '', Object.keys(columns));
}
