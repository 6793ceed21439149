import { PRICE_FACTOR } from '../../domain/settings/company.ts';
import { described, namesOf, textOrNull } from '../../domain/settings/schema.ts';

/** The actors of changes, as rows show them. People of a company do not learn which person of the operator it was. */

/** The company that the transaction entered; null: none, so that an operator reads. */
const ENTERED = `nullif(current_setting('tollgate.company_id', true), '')::uuid`;
const PEOPLE = `(select people_ever(${ENTERED}))`;

/** Columns that the people of a company are not told of, in changes of any table. */
export const HIDDEN: readonly string[] = ['upstream_model', ...namesOf(PRICE_FACTOR)];

/** Stands for every person of the operator. */
export const OPERATOR = 'operator';

/** An expression for an actor as the people of the company that was entered may know it. @param actor an expression */
export function shownActor(actor: string): string {
  return `case when ${actor} is null or ${actor} in ${PEOPLE} then ${actor} else '${OPERATOR}' end`;
}

/**
 * The row before or after a change as the people of the company that was entered may know it: without the name of an
 * operator who made it, also in keys that were named after their creator, and with prices as the company pays them.
 * @param change alias of the row of `audit_log`
 */
export function shownRow(change: string, which: 'before' | 'after'): string {
  const row = `${change}.${which}`;
  const maker = `(${row} ->> 'created_by')`;
  return `case when ${change}.subject in ('models', 'model_prices')
      then paid_row(${row}, ${change}.company_id, coalesce((${row} ->> 'valid_from')::timestamptz, ${change}.at))
    when ${maker} is null or ${maker} in ${PEOPLE} then ${row} else ${row} || jsonb_strip_nulls(
    jsonb_build_object('created_by', 'operator', 'name', replace(${row} ->> 'name', 'Playground of ' || ${maker}, 'Playground of operator'))) end`;
}

/**
 * Whether the people of a company learn of a change: not where nothing but what is hidden from them changed, which
 * would tell when. @param change alias of the row of `audit_log`
 */
export function isShown(change: string): string {
  const shown = (which: string) => `${change}.${which} - '{${HIDDEN.join(',')}}'::text[]`;
  return `(${change}.action <> 'update' or ${shown('before')} is distinct from ${shown('after')})`;
}

/** Whether whoever reads is of the operator (`enterCompany`). */
export const IS_OPERATORS = 'is_operator()';

/** The creator of a row, for whoever reads. */
export const CREATED_BY = `case when ${IS_OPERATORS} then created_by else ${shownActor('created_by')} end`;
export const createdBy = described(
  textOrNull,
  'to an administration token of a company: “operator” for whoever never was one of its users or administration tokens',
);

/** Who paused, for whoever reads: a pause of the operator keeps no name for others. @param isOperators an expression: whether it is one */
export function pausedBy(isOperators: string): string {
  return `case when ${IS_OPERATORS} or not ${isOperators} then paused_by else '${OPERATOR}' end`;
}
