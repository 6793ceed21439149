import { DEMO_COMPANY } from '../domain/wording/demo.ts';
import { deleteDemoCompany, findDemo, usesOfCompany } from '../store/company/demo.ts';
import type { Sql } from '../store/connection/pool.ts';
import { removeModel } from './model.ts';

/** One sentence for each part of the demo that was removed, or that was kept because something else uses it. */
interface RemovedDemo {
  readonly removed: readonly string[];
  readonly kept: readonly string[];
}

/**
 * Removes what `make run` created: the company with its keys and assistant, unless people use it, and models that
 * nothing else uses. Ledger rows, the history of prices and the operator stay.
 */
export async function removeDemo(sql: Sql): Promise<RemovedDemo> {
  const removed: string[] = [];
  const kept: string[] = [];
  const { company, models } = await findDemo(sql);
  if (company !== null) {
    const uses = await usesOfCompany(sql, company);
    if (uses.length > 0)
      kept.push(`The company "${DEMO_COMPANY}" is kept: it has ${uses.join(' and ')}.`);
    else {
      await deleteDemoCompany(sql, company);
      removed.push(`The company "${DEMO_COMPANY}", its keys and its assistant.`);
    }
  }
  for (const { slug, users } of models) {
    if (users.length > 0)
      kept.push(`The model ${slug} is kept: it is used by ${users.join(', ')}.`);
    else {
      await removeModel(sql, { slug, company_id: null });
      removed.push(`The model ${slug}.`);
    }
  }
  return { removed, kept };
}
