import type { Company } from '../../domain/company.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { ApiKey } from '../../domain/key.ts';
import { eachLimit, type LimitLeft } from '../../domain/limits.ts';
import type { Calendar } from '../../domain/month.ts';
import { type Femto, formatEur } from '../../domain/pricing/money.ts';
import { requestIdTime } from '../../runtime/request-id.ts';
import type { Services } from '../request/services.ts';
import type { Lookup } from './call.ts';

const DAY = 86_400_000;

/**
 * GET /usage (contract section 5): what the key used this month, what its own budget leaves, and its limits. Figures
 * of its company are left out: they would tell one key holder what all others spend, and 402 says when that budget is
 * reached.
 */
export const keyUsage: Lookup = { name: 'usage', render: renderUsage };

/** @throws GatewayError 503 */
async function renderUsage(services: Services, key: ApiKey, company: Company): Promise<Buffer> {
  const { calendar, clock, ledger, limiter } = services;
  const at = clock();
  const month = calendar.month(at);
  const found = ledger.usageOf(key, month);
  const isKept = !(found instanceof Promise);
  const used = isKept ? found : await found;
  const limits = await limiter.left(key, company, isKept);
  const budget = key.restriction?.budget ?? null;
  const usage = {
    object: 'usage',
    month: month.slice(0, 7),
    resets_at: calendar.monthEnd(at),
    key: {
      requests: used.requests,
      prompt_tokens: used.promptTokens,
      completion_tokens: used.completionTokens,
      cost_eur: formatEur(used.cost),
      ...budgetLeft(budget, used.cost),
    },
    ...(await dayOf(services, key, at)),
    limits: eachLimit(({ kind }) => limitMembers(limits[kind])),
  };
  return Buffer.from(JSON.stringify(usage));
}

/** The present day of a key with a budget of the day; else nothing. @throws GatewayError 503 */
async function dayOf(
  { calendar, ledger }: Services,
  key: ApiKey,
  at: number,
): Promise<{ day?: object }> {
  const budget = key.restriction?.dailyBudget ?? null;
  if (budget === null) return {};
  const date = calendar.date(at);
  const spent = await ledger.spentOnDay(key, date, 'key');
  const day = {
    date,
    resets_at: calendar.dayEnd(at),
    cost_eur: formatEur(spent),
    ...budgetLeft(budget, spent),
  };
  return { day };
}

function budgetLeft(budget: Femto | null, spent: Femto) {
  const left = budget === null ? null : budget - spent;
  return {
    budget_eur: budget === null ? null : formatEur(budget),
    remaining_eur: left === null ? null : formatEur(left > 0n ? left : 0n),
  };
}

function limitMembers(left: LimitLeft | null) {
  return left && { limit: left.limit, remaining: left.remaining };
}

/** GET /usage/{x-request-id} (contract section 5): one call of the key, streamed or not. */
export const oneCall: Lookup = {
  name: 'usage',
  render: (services, key, _company, id) => renderCall(services, key, id),
};

/**
 * @param id as it stands in the path
 * @throws GatewayError 429, 503, and the same 404 for a request of another key, one without usage, and a malformed id
 */
async function renderCall(
  { calendar, clock, calls }: Services,
  key: ApiKey,
  id: string,
): Promise<Buffer> {
  const requestId = id.toLowerCase();
  const began = requestIdTime(requestId);
  const known = began !== null && began < clock() + DAY;
  const call = known ? await calls.find(key, requestId, monthsAround(calendar, began)) : null;
  if (call === null)
    throw new GatewayError('not_found', 'This key has no request of this id that used anything.');
  const usage = {
    object: 'usage.request',
    id: requestId,
    created_at: timeText(call.at),
    endpoint: call.endpoint,
    model: call.slug,
    prompt_tokens: call.promptTokens,
    completion_tokens: call.completionTokens,
    ...call.details,
    cost_eur: call.eur,
    usage_source: call.source,
    outcome: call.outcome,
  };
  return Buffer.from(JSON.stringify(usage));
}

/** The billing months in which a request may be booked: it is admitted some time after it began. */
function monthsAround(calendar: Calendar, at: number): string[] {
  return [...new Set([at - DAY, at, at + DAY].map((day) => calendar.month(day)))];
}

/** RFC 3339 in UTC, with fractions of a second only where there are any. */
function timeText(at: number): string {
  return new Date(at).toISOString().replace('.000Z', 'Z');
}
