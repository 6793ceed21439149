import { orNone } from '../../domain/field.ts';
import { Calendar } from '../../domain/month.ts';
import { eachSetting, type Setting, type Settings, type Values } from '../../domain/settings/setting.ts';
import type { Caller } from '../../operations/caller.ts';
import type { Mistake } from '../../operations/problem.ts';
import { type Context, Failure, flag, type Option, optional } from './command.ts';
import { ACTOR } from './database.ts';

type Optional<S extends Settings> = { readonly [K in keyof S]: Option<Values<S>[K] | undefined> };

/** Options for the settings of something new: a switch is on where it is given. */
export function newOptions<S extends Settings>(settings: S): Optional<S> {
  return eachSetting(settings, (setting) =>
    setting.kind === 'switch' ? flag(setting.option, setting.meaning) : changeOption(setting),
  ) as unknown as Optional<S>;
}

/** Options for changes: a switch is given as true or false. */
export function changeOptions<S extends Settings>(settings: S): Optional<S> {
  return eachSetting(settings, changeOption) as unknown as Optional<S>;
}

function changeOption({ kind, option, meaning, read, isNullable }: Setting): Option<unknown> {
  if (kind === 'switch') return optional(`${option} true|false`, read, meaning);
  return isNullable ? optional(`${option}|none`, orNone(read), meaning) : optional(option, read, meaning);
}

/**
 * The command line, which asks for an operation. Its operator may mean what rules have against an input: the command warns
 * where that may pass.
 * @param settings the rows whose options the command has
 */
export function callerOf({ warn, config }: Pick<Context, 'warn' | 'config'>, settings: Settings): Caller {
  const services = { ...config, calendar: new Calendar(config.billingTimezone), clock: Date.now };
  return {
    services,
    actor: ACTOR,
    role: 'operator',
    judge(mistakes) {
      const refused = mistakes.filter(({ severity = 'refuse' }) => severity === 'refuse');
      if (refused.length > 0) throw new Failure(...refused.map((mistake) => optionText(settings, mistake)));
      for (const { passed } of mistakes) if (passed !== undefined) warn(passed);
    },
  };
}

/** A mistake as it is told of a command line. */
export function optionText(settings: Settings, { pointer, detail }: Mistake): string {
  const setting = settings[pointer.split('/')[1] ?? ''];
  return `${setting === undefined ? pointer : setting.option.split(' ')[0]} ${detail}`;
}
