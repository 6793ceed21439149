import type { Words } from '../language/en.ts';
import type { Jump, UnusualMeasure } from '../unusual.ts';
import { eurIn } from './eur-text.ts';

/** The texts of what is unusual today: a figure of a company, a key or a model, beside the same hours of other weeks. */

/** An event of the kind "unusual". */
export interface UnusualEvent extends Pick<Jump, 'subject' | 'model'> {
  /** That of the event. */
  readonly id: string;
  /** "unusual.spend". */
  readonly type: string;
  readonly company: { readonly id: string; readonly name: string };
  /** null: of several keys. */
  readonly key: { readonly id: string; readonly name: string; readonly prefix: string } | null;
  /** "2026-11-28", and the time up to which the figures are, "14:20". */
  readonly day: string;
  readonly until: string;
  /** EUR, requests, or milliseconds of a request, as decimal text. */
  readonly value: string;
  readonly usual: string;
}

/** What is told of it, whatever it comes from. */
export type Unusual = Omit<UnusualEvent, 'id' | 'type'>;

/** What an event is about. */
export function measureOf({ type }: Pick<UnusualEvent, 'type'>): UnusualMeasure {
  return type.slice(type.indexOf('.') + 1) as UnusualMeasure;
}

/** A figure as a number: "€81.00", "345", "12.3 s". */
function numberText(measure: UnusualMeasure, value: string, locale: string): string {
  if (measure === 'spend') return eurIn(locale).shown(value);
  if (measure !== 'latency')
    return new Intl.NumberFormat(locale, { maximumFractionDigits: 0 }).format(Number(value));
  const seconds = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  return `${seconds.format(Number(value) / 1000)} s`;
}

/** "Quartz Bank: €81.00 today by 14:20, €1.00 by then on other Saturdays; key “Data science notebook”, us-reasoner". */
export function unusualText(measure: UnusualMeasure, event: Unusual, words: Words): string {
  const { unusual, locale } = words;
  const { company, key, model, day, until, value, usual } = event;
  const weekday = new Intl.DateTimeFormat(locale, { weekday: 'long', timeZone: 'UTC' });
  const named = [
    ...(key === null ? [] : [unusual.key(key.name)]),
    ...(model === null ? [] : [model]),
  ];
  const figure = numberText(measure, value, locale);
  const text = unusual.text({
    who: company.name,
    value: measure === 'spend' ? figure : unusual[measure](figure),
    until,
    usual: numberText(measure, usual, locale),
    weekday: weekday.format(new Date(day)),
  });
  return named.length === 0 ? text : `${text}; ${named.join(', ')}`;
}

/** The page with what it consists of: the usage of the day, or its requests. Below the address of the pages. */
export function unusualPage(
  measure: UnusualMeasure,
  { company, key, model, day }: Unusual,
): string {
  const chosen = { ...(key !== null && { key: key.id }), ...(model !== null && { model }) };
  const [page, query] =
    measure === 'spend'
      ? ['usage', { from: day, to: day, ...chosen }]
      : [
          'requests',
          { from: `${day}T00:00`, ...(measure !== 'latency' && { status: measure }), ...chosen },
        ];
  return `/companies/${company.id}/${page}?${new URLSearchParams(query as Record<string, string>)}`;
}
