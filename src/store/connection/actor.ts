/** The actors of changes, as rows show them. People of a company do not learn which person of the operator it was. */

/** The company that the transaction entered; null: none, so that an operator reads. */
const ENTERED = `nullif(current_setting('tollgate.company_id', true), '')::uuid`;
const PEOPLE = `(select people_ever(${ENTERED}))`;

/** Stands for every person of the operator. */
export const OPERATOR = 'operator';

/** An expression for an actor as the people of the company that was entered may know it. @param actor an expression */
export function shownActor(actor: string): string {
  return `case when ${actor} is null or ${actor} in ${PEOPLE} then ${actor} else '${OPERATOR}' end`;
}

/** Like `shownActor`, for the creator in a row as JSON, and for keys in the audit log that were named after their creator. @param row an expression */
export function shownRow(row: string): string {
  const maker = `(${row} ->> 'created_by')`;
  return `case when ${maker} is null or ${maker} in ${PEOPLE} then ${row} else ${row} || jsonb_strip_nulls(
    jsonb_build_object('created_by', 'operator', 'name', replace(${row} ->> 'name', 'Playground of ' || ${maker}, 'Playground of operator'))) end`;
}

/** Whether whoever reads is of the operator (`enterCompany`). */
export const IS_OPERATORS = `(${ENTERED} is null or current_setting('tollgate.reader', true) = 'operator')`;

/** A column with an actor, for whoever reads. */
const actorIn = (column: string) => `case when ${IS_OPERATORS} then ${column} else ${shownActor(column)} end`;
export const CREATED_BY = actorIn('created_by');
export const PAUSED_BY = actorIn('paused_by');
