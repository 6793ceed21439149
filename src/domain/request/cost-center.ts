import { isUtf8 } from 'node:buffer';
import { GatewayError } from '../errors.ts';
import { refuse } from '../field.ts';
import { refusal } from '../refusal.ts';
import { unseenIn } from '../visible-text.ts';

/**
 * Cost centres: the label of a call that says who shares its cost. At most 64 characters, counted as SQL counts them.
 * Printable, so that two that look alike are alike; and no spreadsheet takes one for a formula.
 */
const COST_CENTER = /^(?![=+\-@]).{1,64}$/u;
/**
 * The longest name before its accents are joined with their letters. A longer text is no name, and is not normalized.
 */
const LONGEST = 512;
const BLANKS = /\p{Zs}+/gu;
const WANT =
  'must be at most 64 printable characters that do not begin with =, +, - or @. It names a cost centre';

/**
 * The one spelling of a cost centre: without the blanks around it, and with blanks and accents as sums have them.
 * @returns empty: none; null: the text cannot be the name of one
 */
export function costCenterName(text: string): string | null {
  const trimmed = text.trim();
  const name = trimmed.length > LONGEST ? trimmed : trimmed.normalize().replace(BLANKS, ' ');
  return name === '' || (COST_CENTER.test(name) && unseenIn(name) === null) ? name : null;
}

/**
 * The cost centre that a member of `metadata` names: a text, or a number as it is written. Lists, objects, true and
 * false are something else by the same name: they name none.
 * @param json the value of the member, as it is written
 * @param param the path of the member, for the error
 * @returns as costCenterName has it; empty: none
 * @throws GatewayError 400 for a text that cannot be booked
 */
export function readCostCenter(json: string, param: string): string {
  if (!/^["\d-]/.test(json)) return '';
  const name = costCenterName(json.startsWith('"') ? (JSON.parse(json) as string) : json);
  if (name !== null) return name;
  throw new GatewayError('invalid_request', `Invalid value for '${param}': ${WANT}.`, param);
}

/**
 * The cost centre that a header names: in UTF-8, or in Latin-1 where its bytes are none.
 * @param raw names and values in turn, a character for each byte
 * @param header in lowercase
 * @returns as costCenterName has it; empty: none
 * @throws GatewayError 400 for a text that cannot be booked, and for two different ones
 */
export function costCenterIn(raw: readonly string[], header: string): string {
  const texts = new Set<string>();
  for (let i = 0; i < raw.length; i += 2)
    if (raw[i]?.toLowerCase() === header) texts.add(raw[i + 1] as string);
  const [text = ''] = texts;
  const bytes = Buffer.from(text, 'latin1');
  const name = texts.size > 1 ? null : costCenterName(isUtf8(bytes) ? bytes.toString() : text);
  if (name !== null) return name;
  throw new GatewayError('invalid_request', `Invalid value for the header '${header}': ${WANT}.`);
}

/** Whether a cost centre may have a budget: calls can name it, in this spelling, and it is not that of calls with one too many. */
export function mayHaveBudget(name: string): boolean {
  return name !== '' && name !== OTHERS && costCenterName(name) === name;
}

/** The cost centre that gets a budget, in the spelling of the ledger. @throws FieldError */
export function readBudgetedCostCenter(text: string): string {
  const name = costCenterName(text) ?? '';
  return mayHaveBudget(name) ? name : refuse(refusal('costCenterName'), text);
}

/** The cost centre of calls whose own is one too many. */
export const OTHERS = '(others)';
/** Different cost centres of one company in a month. */
const MOST = 10_000;
/** Different cost centres of all companies together. Beyond it, a company with more than an equal part names no further ones. */
const MOST_OF_ALL = 500_000;

/**
 * Bounds the cost centres of a month, in the memory of one gateway. The ledger is summed by them: with one for each
 * call, the sums and the statement would be as long as the ledger itself.
 */
export class CostCenters {
  /** By company. */
  readonly #known = new Map<string, Set<string>>();
  readonly #onBound: (companyId: string) => void;
  #month = '';
  #count = 0;

  /** @param onBound called once a month for a company that reaches the bound */
  constructor(onBound: (companyId: string) => void) {
    this.#onBound = onBound;
  }

  /** The cost centre to book. @param name empty: none */
  of(companyId: string, month: string, name: string): string {
    if (name === '' || name === OTHERS) return name;
    if (month !== this.#month) this.#forget(month);
    let known = this.#known.get(companyId);
    if (known === undefined) {
      known = new Set();
      this.#known.set(companyId, known);
    }
    if (known.has(name)) return name;
    if (
      known.size < MOST &&
      (this.#count < MOST_OF_ALL || known.size < MOST_OF_ALL / this.#known.size)
    ) {
      known.add(name);
      this.#count++;
      return name;
    }
    if (!known.has(OTHERS)) this.#onBound(companyId);
    known.add(OTHERS); // it was told
    return OTHERS;
  }

  #forget(month: string): void {
    this.#known.clear();
    this.#month = month;
    this.#count = 0;
  }
}
