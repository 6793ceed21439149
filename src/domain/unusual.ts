/**
 * What is unusual today of a company, a key or a model: a figure far above what it was in the same hours of the same weekday
 * in the last weeks. Only more is unusual: a holiday is not.
 */

/** Weeks whose same weekdays are looked at. */
export const WEEKS = 6;
/** Weeks that must be known: what is newer is new, not unusual. */
const LEAST_WEEKS = 3;
/** How many spreads above the usual are within the usual. */
const SPREADS = 6;
/** Makes the median distance from the median a standard deviation, of what is spread normally. */
const DEVIATION = 1.4826;
/** Days for which a jump that goes on is the same jump, unless it doubles. */
export const SAME_JUMP_DAYS = 7;
const DOUBLED = 2;
/** The part of a figure by which one key or one model is named for it. */
const NAMED_SHARE = 0.5;

export const MEASURES = ['spend', 'refused', 'failed', 'latency'] as const;
export type UnusualMeasure = (typeof MEASURES)[number];
export const SUBJECTS = ['company', 'key', 'model'] as const;

/** Sums of a day, up to the present time of day. */
export interface DayFigures {
  /** EUR; an amount to compare, not to charge. */
  readonly spend: number;
  readonly requests: number;
  readonly refused: number;
  readonly failed: number;
  /** Requests that were not refused, and the milliseconds that they took together. */
  readonly served: number;
  readonly duration_ms: number;
}

/** What is compared: the company, one of its keys, or one of its models. */
export interface SubjectDay {
  readonly subject: (typeof SUBJECTS)[number];
  /** Of the key, or the slug of the model; null: of another subject. */
  readonly key: string | null;
  readonly model: string | null;
  readonly today: DayFigures;
  /** The same hours of the same weekday, of each week since it was first used. */
  readonly weeks: readonly { readonly day: string; readonly figures: DayFigures }[];
  /** EUR of the same hours of each day of the last weeks that is a weekday as today, or a day of the weekend. */
  readonly days: readonly { readonly day: string; readonly spend: number }[];
}

/** Something unusual. The value and the usual are EUR, requests, or milliseconds of a request. */
export interface Jump {
  readonly measure: UnusualMeasure;
  readonly subject: SubjectDay['subject'];
  /** The key and the model that it is about, or that are half of it or more; null: there is none. */
  readonly key: string | null;
  readonly model: string | null;
  readonly value: number;
  readonly usual: number;
}

/** A jump as it was found. */
export interface FoundJump extends Jump {
  readonly day: string;
}

/** The least by which a value is above the usual: in EUR and requests, of these also as a part of all; in milliseconds. */
const FLOORS: Readonly<
  Record<UnusualMeasure, { readonly least: number; readonly share?: number }>
> = {
  spend: { least: 5 },
  refused: { least: 50, share: 0.05 },
  failed: { least: 20, share: 0.05 },
  latency: { least: 2000 },
};
/** Requests without which a mean says nothing. */
const LEAST_SERVED = { today: 50, before: 20 };

/** A key or a model that spends a smaller part of what the company usually does is not told by itself. */
const LEAST_PART = 0.1;

/** Whether so much of a day may be unusual at all; what is below needs no look at the weeks before. */
export const LEAST = {
  spend: FLOORS.spend.least,
  refused: FLOORS.refused.least,
  failed: FLOORS.failed.least,
  served: LEAST_SERVED.today,
};

/** What a figure counts, from which a mean is made or a part is named. */
const SUMMED = {
  spend: 'spend',
  refused: 'refused',
  failed: 'failed',
  latency: 'duration_ms',
} as const;

/** null: too few requests to say it. */
function figureOf(
  measure: UnusualMeasure,
  figures: DayFigures,
  leastServed: number,
): number | null {
  const sum = figures[SUMMED[measure]];
  if (measure !== 'latency') return sum;
  return figures.served < leastServed ? null : sum / figures.served;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

/**
 * Compares one figure with the weeks before. It is unusual above all of: so many times the median, the median and six
 * spreads, the median and a floor, and whatever there was in these weeks. Spend is also above that of all weekdays, or of
 * all days of weekends: who works on some days alone may do so on another one.
 * @param times how many times the usual is unusual
 * @param jumps the days that were unusual: they are not what is usual, unless most are
 * @param leastSpend EUR by which spend is above the usual at least
 * @returns null: it is usual, or it is not known what that is
 */
export function compare(
  measure: UnusualMeasure,
  { subject, today, weeks, days }: SubjectDay,
  times: number,
  jumps: ReadonlySet<string>,
  leastSpend = 0,
): { readonly value: number; readonly usual: number } | null {
  const { least, share = 0 } = FLOORS[measure];
  const floor = Math.max(least, share * today.requests, measure === 'spend' ? leastSpend : 0);
  const value = figureOf(measure, today, LEAST_SERVED.today);
  if (value === null || value <= floor) return null;
  const known = weeks.flatMap(({ day, figures }) => {
    const before = figureOf(measure, figures, LEAST_SERVED.before);
    return before === null ? [] : [{ before, isJump: jumps.has(day) }];
  });
  const calm = known.filter(({ isJump }) => !isJump);
  const all = (calm.length < LEAST_WEEKS ? known : calm).map(({ before }) => before);
  if (all.length < LEAST_WEEKS) return null;
  const usual = median(all);
  // one that works on some days alone; what is much for the company is told of the company
  if (usual === 0 && measure === 'spend' && subject !== 'company') return null;
  const spread = DEVIATION * median(all.map((each) => Math.abs(each - usual)));
  const limits = [
    usual * times,
    usual + SPREADS * spread,
    usual + floor,
    ...all,
    ...(measure === 'spend' ? days : []).flatMap(({ day, spend }) => (jumps.has(day) ? [] : spend)),
  ];
  return value > Math.max(...limits) ? { value, usual } : null;
}

/** Figures of today of a key by a model; null: by the models of which it used least. */
export type KeyModelFigures = DayFigures & { readonly key: string; readonly model: string | null };

/** The key or the model that is half of a sum or more; null: there is none. */
function named(
  parts: readonly KeyModelFigures[],
  by: 'key' | 'model',
  measure: UnusualMeasure,
  whole: number,
) {
  const sums = new Map<string, number>();
  for (const part of parts) {
    const name = part[by];
    if (name !== null) sums.set(name, (sums.get(name) ?? 0) + part[SUMMED[measure]]);
  }
  const [first = null] = [...sums].sort(([, a], [, b]) => b - a);
  return first !== null && first[1] >= whole * NAMED_SHARE ? first[0] : null;
}

/** Whether two are of one jump: of one subject, of one key, or, where one has no key, of one model. */
function isSame(one: Jump, other: Jump): boolean {
  if (one.measure !== other.measure) return false;
  if (one.key !== null && other.key !== null)
    return one.key === other.key || isOneSubject(one, other);
  return isOneSubject(one, other) || (one.model !== null && one.model === other.model);
}

function isOneSubject(one: Jump, other: Jump): boolean {
  if (one.subject !== other.subject) return false;
  return one.subject === 'company' || one[one.subject] === other[one.subject];
}

/** Whether a jump goes on that was found before: today, whatever is said of it, or lately and not twice as high. */
function goesOn(jump: Jump, found: FoundJump, today: string): boolean {
  // what many keys or models make together is told of the company
  const isPart = found.subject === 'company' && found.day === today;
  if (isPart && jump.measure === found.measure) return true;
  if (!isSame(jump, found)) return false;
  return found.day === today || !isOneSubject(jump, found) || jump.value <= DOUBLED * found.value;
}

/**
 * The jumps of a company. A jump of the company, of its keys and of its models is one: only the first is told, and names
 * the key and the model that are half of it.
 * @param today "2026-11-28"
 * @param parts of today, by key and model
 * @param found of the last weeks, today among them
 */
export function jumpsOf(
  today: string,
  subjects: readonly SubjectDay[],
  parts: readonly KeyModelFigures[],
  times: number,
  found: readonly FoundJump[],
): (Jump & { readonly isTold: boolean })[] {
  const order = subjects.toSorted(
    (a, b) => SUBJECTS.indexOf(a.subject) - SUBJECTS.indexOf(b.subject),
  );
  const oldest = new Date(Date.parse(today) - SAME_JUMP_DAYS * 86_400_000).toISOString();
  const lately = found.filter(({ day }) => day >= oldest.slice(0, 10));
  const jumps: (Jump & { isTold: boolean })[] = [];
  const [first] = order;
  const ofCompany = (first?.subject === 'company' ? first.weeks : []).map(
    (week) => week.figures.spend,
  );
  const leastSpend = ofCompany.length === 0 ? 0 : median(ofCompany) * LEAST_PART;
  for (const measure of MEASURES) {
    for (const subject of order) {
      const compared = { ...subject, measure, value: 0, usual: 0 };
      const days = found.filter((each) => each.measure === measure && isOneSubject(each, compared));
      const unusual = compare(
        measure,
        subject,
        times,
        new Set(days.map(({ day }) => day)),
        leastSpend,
      );
      if (unusual === null) continue;
      const whole = subject.today[SUMMED[measure]];
      const own = parts.filter(
        ({ key, model }) =>
          (subject.key === null || subject.key === key) &&
          (subject.model === null || subject.model === model),
      );
      const key = subject.key ?? named(own, 'key', measure, whole);
      const ofKey = key === null ? own : own.filter((part) => part.key === key);
      const model = subject.model ?? named(ofKey, 'model', measure, whole);
      const jump = { measure, subject: subject.subject, key, model, ...unusual };
      const before = [...lately, ...jumps.map((each) => ({ ...each, day: today }))];
      const isTold = !before.some((each) => goesOn(jump, each, today));
      jumps.push({ ...jump, isTold });
    }
  }
  return jumps;
}
