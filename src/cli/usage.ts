import { readMonth, readUuid } from '../domain/field.ts';
import { summarizeUsage, type UsageSums } from '../store/usage.ts';
import { type Command, command, optional, required } from './command.ts';
import { budgetText } from './company.ts';
import { card, table } from './text.ts';

export const usageCommands: readonly Command[] = [
  command({
    name: 'usage summary',
    summary: "show a company's month by model and endpoint",
    options: {
      company: required('--company ID', readUuid, 'company to show'),
      month: optional('--month YYYY-MM', readMonth, 'month to show; default: the current one in the billing time zone'),
    },
    notes: 'EUR amounts are exact. In JSON they are strings, so that no parser rounds them.',
    async run({ read }, { company, month }) {
      const usage = await read((sql) => summarizeUsage(sql, company, month ?? null), company);
      const sections = [
        card(`Usage of ${usage.company_name} in ${usage.month}`, {
          requests: String(usage.requests),
          'prompt tokens': String(usage.prompt_tokens),
          'completion tokens': String(usage.completion_tokens),
          'EUR API': usage.api_cost_eur,
          'EUR in-app chat': usage.chat_cost_eur,
          'EUR total': usage.total_cost_eur,
          'EUR budget': budgetText(usage.monthly_budget_eur),
        }),
        groups(
          'MODEL',
          usage.by_model.map(({ model_slug, ...sums }) => [model_slug, sums]),
        ),
        groups(
          'ENDPOINT',
          usage.by_endpoint.map(({ endpoint, ...sums }) => [endpoint, sums]),
        ),
      ];
      return { json: usage, text: sections.filter((section) => section !== '').join('\n\n') };
    },
  }),
];

function groups(title: string, entries: readonly (readonly [string, UsageSums])[]): string {
  if (entries.length === 0) return '';
  const numbers = ['REQUESTS', 'PROMPT TOKENS', 'COMPLETION TOKENS', 'EUR'];
  const rows = entries.map(([name, sums]) => [
    name,
    ...[sums.requests, sums.prompt_tokens, sums.completion_tokens, sums.cost_eur].map(String),
  ]);
  return table([title, ...numbers], rows, numbers);
}
