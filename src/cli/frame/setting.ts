import type { Validator } from '../../admin/api/check.ts';
import { orNone } from '../../domain/field.ts';
import { Calendar } from '../../domain/month.ts';
import type { RateTexts } from '../../domain/pricing/rates.ts';
import { RATES, rateText } from '../../domain/settings/model.ts';
import { changeOf } from '../../domain/settings/schema.ts';
import {
  eachSetting,
  type Given,
  type New,
  type Setting,
  type Settings,
  schemasOf,
} from '../../domain/settings/setting.ts';
import type { Caller } from '../../operations/frame/caller.ts';
import type { Mistake } from '../../operations/frame/refused.ts';
import {
  type Context,
  Failure,
  flag,
  listOrNone,
  type Option,
  optional,
  repeated,
  required,
} from './command.ts';
import { ACTOR } from './database.ts';
import { inputName, readInput } from './files.ts';
import { type Cell, instant, yesNo } from './text.ts';

type ForNew<S extends Settings> = { readonly [K in keyof S]-?: Option<New<S>[K & keyof New<S>]> };
type ForChange<S extends Settings> = { readonly [K in keyof S]: Option<Given<S>[K] | undefined> };

/**
 * Options for the settings of something new: a switch is on where it is given, unless it is needed.
 * @param takesNone whether "none" may be said for what is left out
 */
export function newOptions<S extends Settings>(settings: S, takesNone = true): ForNew<S> {
  return eachSetting(settings, (setting) => newOption(setting, takesNone)) as unknown as ForNew<S>;
}

/** Options for changes: a switch is given as true or false. */
export function changeOptions<S extends Settings>(settings: S): ForChange<S> {
  return eachSetting(settings, changeOption) as unknown as ForChange<S>;
}

function newOption(setting: Setting, takesNone: boolean): Option<unknown> {
  const { kind, option, meaning, read, isNeeded, isNullable } = setting;
  if (kind === 'switch')
    return isNeeded ? required(`${option} true|false`, read, meaning) : flag(option, meaning);
  if (kind === 'list' && isNeeded) return repeated(option, read, `${meaning}; may be repeated`, 1);
  if (isNeeded) return required(option, read, meaning);
  return isNullable && !takesNone
    ? optional(option, read, meaning)
    : changeOption({ ...setting, changed: meaning });
}

function changeOption({
  kind,
  option,
  meaning,
  changed = meaning,
  read,
  isNullable,
}: Setting): Option<unknown> {
  if (kind === 'switch') return optional(`${option} true|false`, read, changed);
  if (kind === 'rates') return optional(`${option}|none`, readSource, changed);
  if (kind === 'list' && isNullable) return listOrNone(`${option}|none`, read, changed);
  if (kind === 'list') {
    const list = repeated(option, read, `${changed}; may be repeated`);
    return { ...list, read: (texts) => (texts.length === 0 ? undefined : list.read(texts)) };
  }
  return isNullable
    ? optional(`${option}|none`, orNone(read), changed)
    : optional(option, read, changed);
}

/**
 * The command line, which asks for an operation. Its operator may mean what rules have against an input: the command warns
 * where that may pass.
 * @param settings the rows whose options the command has
 */
export function callerOf(
  { warn, config }: Pick<Context, 'warn' | 'config'>,
  settings: Settings,
): Caller {
  const services = { ...config, calendar: new Calendar(config.billingTimezone), clock: Date.now };
  return {
    services,
    actor: ACTOR,
    role: 'operator',
    isHeard: true,
    judge(mistakes) {
      const refused = mistakes.filter(({ severity = 'refuse' }) => severity === 'refuse');
      if (refused.length > 0)
        throw new Failure(...refused.map((mistake) => optionText(settings, mistake)));
      for (const { passed } of mistakes) if (passed !== undefined) warn(passed);
    },
  };
}

/** Where an option says that its rates are: a file's path; null: it says that there are none. */
interface Source {
  readonly path: string | null;
}

const readSource = (text: string): Source => ({ path: text === 'none' ? null : text });

/** The values of options, with the contents of the files that they name. @throws Failure all that is wrong with a file */
export async function withFiles<V extends object>(
  { stdin }: Pick<Context, 'stdin'>,
  values: V,
): Promise<V> {
  const { rates } = values as { readonly rates?: unknown };
  if (rates === undefined) return values;
  const { path } = rates as Source;
  return { ...values, rates: path === null ? null : await ratesIn(path, stdin) };
}

const CHANGE = changeOf(schemasOf(RATES));
const MOST_BYTES = 1_048_576;

async function ratesIn(path: string, stdin: Context['stdin']): Promise<unknown> {
  const name = inputName(path);
  const text = await readInput(path, stdin, MOST_BYTES);
  let rates: unknown;
  try {
    rates = JSON.parse(text);
  } catch (error) {
    throw new Failure(`${name} is not JSON: ${(error as Error).message}`);
  }
  // loaded only here: no other option needs them
  const { mistakesIn } = await import('../../admin/api/check.ts');
  const { changeModelBody } = await import('../../admin/api/validators.generated.ts');
  const wrong = mistakesIn({ rates }, changeModelBody as Validator, CHANGE);
  if (wrong.length > 0)
    throw new Failure(...wrong.map((each) => `${name}: ${optionText(RATES, each)}`));
  return rates;
}

/** The settings that a thing has, for its card: each is named as its option is, and what is not set is left out. */
export function settingCells(settings: Settings, thing: object): Record<string, Cell> {
  const values = thing as Readonly<Record<string, unknown>>;
  const cells = Object.entries(settings).map(([column, setting]) => {
    return [
      nameOf(setting).slice(2).replaceAll('-', ' '),
      cellOf(setting, values[column]),
    ] as const;
  });
  return Object.fromEntries(cells.filter(([, cell]) => cell !== null));
}

const UNITS: { readonly [K in Setting['kind']]?: string } = {
  amount: ' EUR',
  price: ' EUR per 1000 tokens',
};

function cellOf({ kind, isNeeded }: Setting, value: unknown): Cell {
  if (value == null || (value === false && !isNeeded)) return null;
  if (kind === 'switch') return yesNo(value as boolean);
  if (kind === 'instant') return instant(value as Date);
  if (kind === 'list') return (value as readonly string[]).join(', ') || null;
  if (kind === 'rates') return ratesText(value as readonly RateTexts[]);
  return `${value}${UNITS[kind] ?? ''}`;
}

/** Rates as a card has them. */
export function ratesText(rates: readonly RateTexts[]): string {
  return rates.map((rate) => rateText(rate)).join('; ');
}

/** The name of an option, without its value: "--budget". */
function nameOf({ option }: Pick<Setting, 'option'>): string {
  return option.split(' ')[0] as string;
}

/** A mistake as it is told of a command line. */
export function optionText(
  settings: Readonly<Record<string, Pick<Setting, 'option'>>>,
  { pointer, detail }: Mistake,
) {
  const [, column = '', at, member] = pointer.split('/');
  const setting = settings[column];
  const isRate = column === 'rates' && member !== undefined;
  const place = isRate ? `, rate ${Number(at) + 1}, ${member}` : '';
  return `${setting === undefined ? pointer : nameOf(setting)}${place} ${detail}`;
}
