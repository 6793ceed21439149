import { isInstant } from '../field.ts';
import type { Prices, SomeCounts } from '../pricing/prices.ts';
import { readCost } from './exact-amount.ts';
import { CsvError, readCsv } from './read-csv.ts';

const LONGEST_CALL_MS = 8 * 24 * 3600 * 1000;

/** What the cost of a call in the ledger depends on. */
export interface CostFacts {
  /** Cost prices of its model, the latest first, and which of them held. */
  readonly prices: readonly Prices[];
  readonly held: number;
  readonly tier: string | null;
  readonly counts: SomeCounts;
}

/** One call as the upstream billed it, or as the ledger has it. */
export interface BilledCall {
  /** The line of a file, or a request id. */
  readonly name: string;
  /** The gateway's request id, if known. */
  readonly requestId: string | null;
  /** Internal model name. */
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** On the bill the upstream's charge, in its currency; in the ledger tokens × cost price, in EUR. null: not known. */
  readonly cost: string | null;
  /** The charge to the company in EUR, and the company; null on the bill. */
  readonly charged: string | null;
  readonly companyId: string | null;
  /** What its cost depends on; null on the bill, and without a cost price. */
  readonly facts: CostFacts | null;
}

interface Pair {
  readonly upstream: BilledCall;
  readonly ledger: BilledCall;
}

export interface Reconciliation {
  /** The calls that both have with the same figures. */
  readonly same: readonly Pair[];
  /** Billed by the upstream, not in the ledger. */
  readonly missing: readonly BilledCall[];
  /** In the ledger, not billed by the upstream. */
  readonly extra: readonly BilledCall[];
  /** The same call with other figures. */
  readonly differing: readonly Pair[];
}

/**
 * Compares the upstream's bill with the ledger. Pairs calls by request id where the bill has it, then
 * by model, figures and time, then by model and time only: those are the same calls with other figures.
 * @param withinMs the largest difference between the two times of a call
 */
export function reconcile(
  upstream: readonly BilledCall[],
  ledger: readonly BilledCall[],
  withinMs: number,
): Reconciliation {
  const differing: Pair[] = [];
  const same: Pair[] = [];
  const byId = new Map(ledger.map((call) => [call.requestId, call]));
  const taken = new Set<BilledCall>();
  const rest: BilledCall[] = [];
  for (const call of upstream) {
    const own = call.requestId === null ? undefined : byId.get(call.requestId);
    if (own === undefined || taken.has(own)) {
      rest.push(call);
      continue;
    }
    taken.add(own);
    (figures(call) === figures(own) ? same : differing).push({ upstream: call, ledger: own });
  }
  const others = ledger.filter((call) => !taken.has(call));
  const equal = pairUp(rest, others, figures, withinMs);
  const alike = pairUp(equal.upstream, equal.ledger, ({ model }) => model, withinMs);

  // the ledger was read a little beyond both ends of the bill; calls there may be on another bill
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { at } of upstream) [first, last] = [Math.min(first, at), Math.max(last, at)];
  const extra = alike.ledger.filter(({ at }) => at >= first && at <= last);
  return {
    same: [...same, ...equal.pairs],
    missing: alike.upstream,
    extra,
    differing: [...differing, ...alike.pairs],
  };
}

/** The part of a comparison that is about one company. Calls that the ledger does not have may be anybody's, and stay. */
export function ofCompany(
  { same, missing, extra, differing }: Reconciliation,
  company: string,
): Reconciliation {
  return {
    same: same.filter(({ ledger }) => ledger.companyId === company),
    missing,
    extra: extra.filter(({ companyId }) => companyId === company),
    differing: differing.filter(({ ledger }) => ledger.companyId === company),
  };
}

/**
 * The first and the last instant at which calls of a bill may have been admitted. A bill has the time
 * of the beginning or the end of a call; a request id contains the time it was made.
 */
export function spanOf(calls: readonly BilledCall[]): readonly [first: number, last: number] {
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const { at, requestId } of calls) {
    const made = requestId === null ? at : timeOfId(requestId);
    const began = Math.abs(made - at) <= LONGEST_CALL_MS ? made : at; // otherwise not one of our ids
    first = Math.min(first, at, began);
    last = Math.max(last, at, began);
  }
  return [first, last];
}

/** The time in a UUID of version 7, milliseconds since the epoch; NaN for other ids. */
function timeOfId(id: string): number {
  return /^[\da-f]{8}-[\da-f]{4}-7/.test(id)
    ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)
    : Number.NaN;
}

function figures({ model, promptTokens, completionTokens }: BilledCall): string {
  return `${model} ${promptTokens} ${completionTokens}`;
}

/** Pairs calls of equal keys that are at most so far apart, earliest first. */
function pairUp(
  upstream: readonly BilledCall[],
  ledger: readonly BilledCall[],
  key: (call: BilledCall) => string,
  withinMs: number,
): { pairs: Pair[]; upstream: BilledCall[]; ledger: BilledCall[] } {
  const pairs: Pair[] = [];
  const left: BilledCall[] = [];
  const unpaired = new Set(ledger);
  const candidates = Map.groupBy(ledger.toSorted(byTime), key);
  for (const [name, calls] of Map.groupBy(upstream.toSorted(byTime), key)) {
    const own = candidates.get(name) ?? [];
    let next = 0;
    for (const call of calls) {
      while (next < own.length && (own[next] as BilledCall).at < call.at - withinMs) next += 1;
      const candidate = own[next];
      if (candidate === undefined || candidate.at > call.at + withinMs) {
        left.push(call);
        continue;
      }
      next += 1;
      unpaired.delete(candidate);
      pairs.push({ upstream: call, ledger: candidate });
    }
  }
  return { pairs, upstream: left, ledger: [...unpaired] };
}

function byTime(a: BilledCall, b: BilledCall): number {
  return a.at - b.at;
}

/** The columns of an upstream's export, which its first line names in any order, and their possible names. */
export const EXPORT_COLUMNS = {
  model: ['model', 'upstream_model'],
  prompt: ['prompt_tokens', 'input_tokens'],
  completion: ['completion_tokens', 'output_tokens'],
  time: ['occurred_at', 'time', 'timestamp', 'created_at', 'startTime'],
  id: ['request_id', 'x-request-id'],
  cost: ['cost', 'cost_eur', 'cost_usd', 'spend', 'response_cost', 'total_cost'],
} satisfies Record<string, readonly string[]>;

/**
 * Reads an upstream's export: CSV with a heading. Model, prompt_tokens and a time are needed; completion_tokens is 0
 * without its column. Columns not in EXPORT_COLUMNS are ignored.
 * @throws CsvError
 */
export function readExport(text: string): BilledCall[] {
  const { separator, lines: all } = readCsv(text);
  const [heading, ...lines] = all;
  if (heading === undefined)
    throw new CsvError(1, 'the file is empty; its first line names the columns');
  const placeOf = (names: readonly string[]): number =>
    heading.cells.findIndex((cell) => names.includes(cell));
  for (const names of [EXPORT_COLUMNS.model, EXPORT_COLUMNS.prompt, EXPORT_COLUMNS.time]) {
    if (placeOf(names) < 0)
      throw new CsvError(heading.line, `there is no column ${names.join(' or ')}`);
  }
  const model = placeOf(EXPORT_COLUMNS.model);
  const prompt = placeOf(EXPORT_COLUMNS.prompt);
  const completion = placeOf(EXPORT_COLUMNS.completion);
  const time = placeOf(EXPORT_COLUMNS.time);
  const id = placeOf(EXPORT_COLUMNS.id);
  const cost = placeOf(EXPORT_COLUMNS.cost);
  return lines.map(({ cells, line }) => {
    const cell = (place: number): string => cells[place] ?? '';
    const check = (isRight: boolean, place: number, noun: string): void => {
      if (!isRight) throw new CsvError(line, `${JSON.stringify(cell(place))} is no ${noun}`);
    };
    const count = (place: number): number => {
      check(/^\d{1,15}(\.0*)?$/.test(cell(place)), place, 'number of tokens');
      return Number(cell(place));
    };
    const at = Date.parse(zoned(cell(time)));
    check(isInstant(at), time, 'ISO 8601 time');
    const billed = readCost(separator === ';' ? cell(cost).replace(',', '.') : cell(cost));
    check(billed !== null || cell(cost) === '', cost, 'cost');
    return {
      name: `line ${line}`,
      requestId: cell(id).toLowerCase() || null,
      model: cell(model),
      promptTokens: count(prompt),
      completionTokens: completion < 0 ? 0 : count(completion),
      at,
      cost: billed,
      charged: null,
      companyId: null,
      facts: null,
    };
  });
}

/** A time without a zone is UTC. */
function zoned(time: string): string {
  const iso = time.replace(' ', 'T');
  return /T.*(?:Z|[+-]\d\d:?\d\d)$/i.test(iso) || !iso.includes('T') ? iso : `${iso}Z`;
}
