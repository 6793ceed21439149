/**
 * What a call costs by a price with parts and rates, and by the clocks of three zones: an oracle that shares no code with the
 * gateway, in whole numbers of 10^-15 EUR.
 */

export const OF_PROMPT = [
  'cache_read',
  'cache_write',
  'cache_write_1h',
  'audio_input',
  'image_input',
];
export const OF_COMPLETION = ['reasoning', 'audio_output', 'image_output'];
export const ALONE = ['search_unit', 'request'];
export type Texts = Record<string, string | null>;
export interface Counts {
  readonly prompt: number;
  readonly completion: number;
  /** By the part; null: not told. */
  readonly units: Readonly<Record<string, number | null>>;
}
export type Rated = { readonly over?: number; readonly tier?: string; readonly hours?: string } & {
  readonly [part: string]: string | number | null | undefined;
};
export interface Price {
  readonly texts: Texts;
  readonly rates: readonly Rated[];
}

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
/** Minutes by which clocks of a zone are ahead of UTC. */
function offsetOf(zone: string, at: number): number {
  if (zone === 'Asia/Kathmandu') return 345;
  const year = new Date(at).getUTCFullYear();
  const sunday = (month: number, day: number) => {
    const from = Date.UTC(year, month, day);
    return from + ((7 - new Date(from).getUTCDay()) % 7) * DAY;
  };
  if (zone === 'Europe/Berlin')
    return at >= sunday(2, 25) + HOUR && at < sunday(9, 25) + HOUR ? 120 : 60;
  return at >= sunday(2, 8) + 7 * HOUR && at < sunday(10, 1) + 6 * HOUR ? -240 : -300; // New York
}
export const ZONES = ['Europe/Berlin', 'America/New_York', 'Asia/Kathmandu'] as const;
const WEEK = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

function isWithin(hours: string, at: number): boolean {
  const words = hours.split(' ');
  const zone = words.pop() as string;
  const windows = (words.pop() as string).split(',');
  const days = words[0] === undefined ? WEEK : daysOf(words[0]);
  const wall = new Date(at + offsetOf(zone, at) * 60_000);
  const now = wall.getUTCDay() * 1440 + wall.getUTCHours() * 60 + wall.getUTCMinutes();
  return windows.some((window) => {
    const [from, to] = window.split('-').map((clock) => {
      const [hour, minute] = clock.split(':').map(Number) as [number, number];
      return hour * 60 + minute;
    }) as [number, number];
    const length = to > from ? to - from : to + 1440 - from;
    return days.some((day) => (now - WEEK.indexOf(day) * 1440 - from + 2 * 10080) % 10080 < length);
  });
}
function daysOf(text: string): string[] {
  const [first, last = first] = text.split('-') as [string, string?];
  const days = [first];
  while (days.at(-1) !== last)
    days.push(WEEK[(WEEK.indexOf(days.at(-1) as string) + 1) % 7] as string);
  return days;
}

/** What a call costs, by its counts as told. */
export function priceOf(
  price: Price,
  factor: bigint,
  told: Counts,
  at: number,
  tier: string | null,
) {
  const held = price.rates
    .filter(
      ({ over, tier: of, hours }) =>
        (over === undefined || told.prompt > over) &&
        (of === undefined || of === tier) &&
        (hours === undefined || isWithin(hours, at)),
    )
    .map((rate) => ({
      rate,
      conditions: ['over', 'tier', 'hours'].filter((name) => name in rate).length,
    }))
    .sort((a, b) => b.conditions - a.conditions || (b.rate.over ?? -1) - (a.rate.over ?? -1))[0];
  const texts = (held?.rate ?? price.texts) as Texts;
  const has = (part: string) => texts[part] != null;
  /** Of one unit, times 100 of the factor. */
  const each = (part: string) => scaled(texts[part] as string) * factor;
  const units: Record<string, number> = {};
  const details: Record<string, number | null> = {};
  let isCut = false;
  let input = told.prompt;
  let output = told.completion;
  const cut = (part: string, room: number): number => {
    const told1 = told.units[part] ?? null;
    if (told1 === null) return 0;
    const taken = Math.min(told1, room);
    if (taken < told1) isCut = true;
    details[part] = taken;
    return taken;
  };
  for (const part of [...OF_PROMPT, ...OF_COMPLETION, ...ALONE]) {
    const told1 = told.units[part] ?? null;
    const whole = OF_PROMPT.includes(part) ? told.prompt : told.completion;
    details[part] = part === 'search_unit' || (told1 !== null && told1 <= whole) ? told1 : null;
  }
  const isCached = has('cache_read') || has('cache_write');
  if (isCached) {
    const read = cut('cache_read', input);
    const write = cut('cache_write', input - read);
    let hour = 0;
    if (has('cache_write_1h')) hour = cut('cache_write_1h', write);
    input -= read + write;
    units.cache_read = has('cache_read') ? read : 0;
    units.cache_write = has('cache_write') ? write - hour : 0;
    units.cache_write_1h = hour;
    units.input = (has('cache_read') ? 0 : read) + (has('cache_write') ? 0 : write - hour);
  } else if (has('cache_write_1h')) {
    units.cache_write_1h = cut('cache_write_1h', input);
    input -= units.cache_write_1h;
  }
  for (const part of ['audio_input', 'image_input']) {
    if (!has(part)) continue;
    units[part] = cut(part, input);
    input -= units[part] as number;
  }
  for (const part of OF_COMPLETION) {
    if (!has(part)) continue;
    units[part] = cut(part, output);
    output -= units[part] as number;
  }
  units.input = (units.input ?? 0) + input;
  units.output = output;
  units.search_unit = has('search_unit') ? (told.units.search_unit ?? 0) : 0;
  units.request = has('request') ? 1 : 0;
  let hundredths = 0n;
  for (const [part, count] of Object.entries(units))
    if (count > 0) hundredths += BigInt(count) * each(part);
  if (hundredths % 100n !== 0n) throw new Error('the oracle is not exact');
  const isListed = Object.entries(units).some(
    ([part, count]) =>
      count > 0 && !['input', 'cache_read', 'cache_write', 'output'].includes(part),
  );
  const rate = held === undefined ? null : nameOf(held.rate);
  return { cost: hundredths / 100n, rate, details, isCut, units: isListed ? units : null };
}
const nameOf = ({ over, tier, hours }: Rated) =>
  [tier, hours, over === undefined ? undefined : `over ${over}`].filter(Boolean).join(' ');
/** Of a price of 1000 units with 12 decimals: 10^-15 EUR for one. */
function scaled(text: string): bigint {
  const [whole, fraction = ''] = text.split('.') as [string, string?];
  return BigInt(whole + fraction.replace(/0+$/, '').padEnd(12, '0'));
}
