import { GatewayError } from '../../domain/errors.ts';
import type { ApiKey } from '../../domain/key.ts';
import { type Femto, formatEur } from '../../domain/pricing/money.ts';
import { Reply } from './reply.ts';
import type { Services } from './services.ts';

/** A budget that holds for a call. */
interface HeldBudget {
  /** As errors name it: "company.monthly_budget_eur". */
  readonly setting: string;
  readonly limit: Femto;
  /** When the request came: without the call itself. */
  readonly spent: Femto;
  /** RFC 3339 in UTC. */
  readonly resetsAt: string;
}

const RESETS = 'x-budget-resets-at';

/**
 * The budgets of a key and its company, as they are now. None where a figure cannot be read: who may not be served without
 * it is refused by the gate.
 */
export async function budgetsOf(services: Services, key: ApiKey): Promise<readonly HeldBudget[]> {
  const { directory, ledger, calendar, clock } = services;
  try {
    const company = await directory.company(key.companyId);
    const at = clock();
    const month = calendar.month(at);
    const day = calendar.date(at);
    const found: HeldBudget[] = [];
    for (const [whose, of] of [
      ['company', company],
      ['key', key.restriction],
    ] as const) {
      if (of === null) continue;
      const { budget, dailyBudget } = of;
      if (budget !== null) {
        const spent = await (whose === 'key'
          ? ledger.spentByKey(key, month)
          : ledger.spentOf(key, month));
        found.push({
          setting: `${whose}.monthly_budget_eur`,
          limit: budget,
          spent,
          resetsAt: calendar.monthEnd(at),
        });
      }
      if (dailyBudget !== null) {
        const spent = await ledger.spentOnDay(key, day, whose);
        found.push({
          setting: `${whose}.daily_budget_eur`,
          limit: dailyBudget,
          spent,
          resetsAt: calendar.dayEnd(at),
        });
      }
    }
    return found;
  } catch (error) {
    if (error instanceof GatewayError) return [];
    throw error;
  }
}

/**
 * The client's side of a request with QUOTA_HEADERS (contract section 5): each answer to a key with a budget tells the
 * nearest budget. A 402 tells the one that refused.
 */
export class QuotaReply extends Reply {
  budgets: readonly HeldBudget[] = [];

  protected override headers(length: number): string[] {
    const headers = super.headers(length);
    const resets = this.failure?.headers.indexOf(RESETS) ?? -1;
    if (this.failure === null || resets < 0) return this.#tell(headers, nearest(this.budgets));
    // the error has when it begins anew
    const { setting, headers: told } = this.failure;
    const isStrict = setting === 'company.budget_mode';
    const refused = this.budgets.filter((each) =>
      isStrict
        ? each.setting.startsWith('company.') && each.resetsAt === told[resets + 1]
        : each.setting === setting,
    );
    const budget = nearest(refused);
    return budget === null
      ? headers
      : this.#tellAmounts(headers, isStrict ? budget : { ...budget, spent: budget.limit });
  }

  protected override streamHeaders(): string[] {
    return this.#tell(super.streamHeaders(), nearest(this.budgets));
  }

  #tell(headers: string[], budget: HeldBudget | null): string[] {
    if (budget !== null) this.#tellAmounts(headers, budget).push(RESETS, budget.resetsAt);
    return headers;
  }

  #tellAmounts(headers: string[], budget: HeldBudget): string[] {
    const [limit, left] = [budget.limit, leftOf(budget)];
    headers.push('x-budget-limit-eur', formatEur(limit), 'x-budget-remaining-eur', formatEur(left));
    return headers;
  }
}

/** The budget with the least left; of equals the one that begins anew last. */
function nearest(budgets: readonly HeldBudget[]): HeldBudget | null {
  const [first = null] = budgets.toSorted(
    (a, b) => Number(leftOf(a) - leftOf(b)) || b.resetsAt.localeCompare(a.resetsAt),
  );
  return first;
}

function leftOf({ limit, spent }: Pick<HeldBudget, 'limit' | 'spent'>): Femto {
  return spent < limit ? limit - spent : 0n;
}
