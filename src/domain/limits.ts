/**
 * How much a company or a key may send, over all gateways together (contract section 5).
 * null: no limit. A request has to fit both its company's limits and its key's.
 */
export interface Limits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
  /** Calls in flight at once. */
  readonly maxConcurrent: number | null;
}

export type LimitKind = 'requests' | 'tokens' | 'calls';

/** A limit, as the database, the gateway and all faces of the administration have it. */
interface LimitSetting {
  readonly kind: LimitKind;
  readonly member: keyof Limits;
  /** Its highest value; the lowest is 1. */
  readonly most: number;
  /** Of its field in a form. */
  readonly label: string;
  /** What its option means on the command line. */
  readonly meaning: string;
  /** Of its member in a schema. */
  readonly description: string;
}

/** One row for each column of `companies` and `api_keys` (contract section 5). Nothing else spells them. */
const SETTINGS = {
  requests_per_minute: {
    kind: 'requests',
    member: 'requestsPerMinute',
    most: 1_000_000_000,
    label: 'Requests a minute',
    meaning: 'most requests a minute, over all gateways together',
    description: 'null: no limit',
  },
  tokens_per_minute: {
    kind: 'tokens',
    member: 'tokensPerMinute',
    most: 1_000_000_000_000,
    label: 'Tokens a minute',
    meaning:
      'most tokens a minute; a request counts with the most it may generate until it is answered',
    description: 'null: no limit',
  },
  max_concurrent: {
    kind: 'calls',
    member: 'maxConcurrent',
    most: 1_000_000,
    label: 'Calls at once',
    meaning: 'most calls at once',
    description: 'calls in flight at once; null: no limit',
  },
} satisfies Readonly<Record<string, LimitSetting>>;

/** The most active keys of their own that a company may let each of its members have. */
export const MOST_MEMBER_KEYS = 100;

export type LimitName = keyof typeof SETTINGS;
/** Their order in lists, forms and answers. */
export const LIMIT_NAMES = Object.keys(SETTINGS) as readonly LimitName[];
/** null: no limit. */
export type LimitColumns = { readonly [name in LimitName]: number | null };
/** The columns by their kinds. */
export const LIMIT_COLUMNS = Object.fromEntries(
  LIMIT_NAMES.map((name) => [SETTINGS[name].kind, name]),
) as {
  readonly [kind in LimitKind]: LimitName;
};

/** Makes something of each limit, such as the fields of a form. */
export function eachLimit<T>(make: (limit: LimitSetting, name: LimitName) => T): {
  readonly [name in LimitName]: T;
} {
  return Object.fromEntries(
    LIMIT_NAMES.map((name) => [name, make(SETTINGS[name], name)]),
  ) as Record<LimitName, T>;
}

/** How much of a limit is left. */
export interface LimitLeft {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until all of it is free, if nothing more is used. */
  readonly resetSeconds: number;
}

/** What is left of the limits of a request; null: no limit of this kind. */
export type LimitsLeft = { readonly [kind in LimitKind]: LimitLeft | null };

/**
 * Seconds until so many units are free.
 * @param units leased in each of the last seconds, the oldest first: with each second that passes the first is free
 * @param need units; no more than the limit
 */
export function secondsUntilFree(units: readonly number[], limit: number, need: number): number {
  let free = limit - sumOf(units);
  let seconds = 0;
  while (free < need && seconds < units.length) free += units[seconds++] as number;
  return seconds;
}

/** What is left of a limit. @param inHand units that are leased but not used */
export function leftOf(units: readonly number[], limit: number, inHand: number): LimitLeft {
  const used = sumOf(units) - inHand;
  const resetSeconds = used <= 0 ? 0 : units.findLastIndex((leased) => leased > 0) + 1;
  return { limit, remaining: Math.min(limit, Math.max(0, limit - used)), resetSeconds };
}

/** Of two limits of one kind, the one that leaves less. */
export function tighter(a: LimitLeft | null, b: LimitLeft | null): LimitLeft | null {
  if (a === null || b === null) return a ?? b;
  return b.remaining < a.remaining ? b : a;
}

const UNITS: Readonly<Record<LimitKind, readonly [noun: string, when: string]>> = {
  requests: ['request', 'per minute'],
  tokens: ['token', 'per minute'],
  calls: ['request', 'at once'],
};

/** Why a request is refused, without the words of the dialect. */
export function limitText(
  kind: LimitKind,
  whose: 'key' | 'company',
  limit: number,
  seconds: number,
): string {
  const counted =
    kind === 'tokens'
      ? ' Until it is answered, a request counts with the most tokens it may generate.'
      : '';
  const [noun, when] = UNITS[kind];
  const units = `${limit} ${noun}${limit === 1 ? '' : 's'} ${when}`;
  return `This ${whose} is limited to ${units}.${counted} Try again in ${duration(seconds)}.`;
}

/**
 * Why a request is refused that counts with more tokens than a whole minute has, and what would pass.
 * @param prompt tokens of its prompt, as estimated
 */
export function tooLargeText(
  whose: 'key' | 'company',
  limit: number,
  units: number,
  prompt: number,
): string {
  const left = limit - prompt;
  const smaller = left > 0 ? `generate ${left} tokens at most` : 'send a shorter prompt';
  return (
    `This request can never pass: it counts with ${units} tokens (its prompt, and the most that it may generate), and ` +
    `this ${whose} is limited to ${limit} tokens per minute. Let it ${smaller}, or have the limit raised.`
  );
}

/** The `x-ratelimit-*` headers of the reference format, names and values in turn. */
export function limitHeaders({ requests, tokens }: LimitsLeft): string[] {
  const headers: string[] = [];
  for (const [kind, left] of Object.entries({ requests, tokens })) {
    if (left === null) continue;
    headers.push(
      `x-ratelimit-limit-${kind}`,
      `${left.limit}`,
      `x-ratelimit-remaining-${kind}`,
      `${left.remaining}`,
    );
    headers.push(`x-ratelimit-reset-${kind}`, duration(left.resetSeconds));
  }
  return headers;
}

/** Seconds as the reference format writes them: "1s", "6m0s". */
function duration(seconds: number): string {
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

function sumOf(units: readonly number[]): number {
  return units.reduce((sum, each) => sum + each, 0);
}
