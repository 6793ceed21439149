import { GatewayError } from './errors.ts';

/**
 * Cost centres: the label of a call that says who shares its cost. At most 64 characters, counted as SQL counts them.
 * Printable, so that two that look alike are alike; and no spreadsheet takes one for a formula.
 */
const COST_CENTER = /^(?![=+\-@])[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u;
const WANT = 'must be at most 64 printable characters that do not begin with =, +, - or @. It names a cost centre';

/**
 * The cost centre that a member of `metadata` names: a text, or a number as it is written. Lists, objects, true and
 * false are something else by the same name: they name none.
 * @param json the value of the member, as it is written
 * @param param the path of the member, for the error
 * @returns without the blanks around it; empty: none
 * @throws GatewayError 400 for a text that cannot be booked
 */
export function readCostCenter(json: string, param: string): string {
  if (!/^["\d-]/.test(json)) return '';
  const name = (json.startsWith('"') ? (JSON.parse(json) as string) : json).trim();
  if (name === '' || COST_CENTER.test(name)) return name;
  throw new GatewayError('invalid_request', `Invalid value for '${param}': ${WANT}.`, param);
}
