import { throwNotFound } from '../domain/refusal.ts';
import { findCompany } from '../store/company/company.ts';
import type { Sql } from '../store/connection/pool.ts';
import { hasAlert, updateUndelivered } from '../store/events/alert.ts';
import { type EventFilter, updateDue } from '../store/events/event.ts';

/** Events and alerts that are sent again. */

/**
 * Has events sent again under their ids: by webhook also those that were delivered, or for which there was no
 * webhook, and the e-mails that were not delivered. Without a webhook they wait until there is one.
 * @returns how many events
 * @throws RefusedChange not_found, of an id, and of a company
 */
export async function replayEvents(
  sql: Sql,
  which: EventFilter | { readonly id: string },
): Promise<number> {
  const count = await updateDue(sql, which);
  if (count > 0) return count;
  if ('id' in which) throwNotFound('event', `There is no event ${which.id}.`);
  if (which.company !== null) await findCompany(sql, which.company);
  return count;
}

/**
 * Has undelivered alerts sent again, as if they were new.
 * @param id of an alert; null: all
 * @returns how many deliveries
 * @throws RefusedChange not_found
 */
export async function retryAlerts(sql: Sql, id: string | null): Promise<number> {
  const count = await updateUndelivered(sql, id);
  if (count === 0 && id !== null && !(await hasAlert(sql, id)))
    throwNotFound('alert', `There is no alert ${id}.`);
  return count;
}
