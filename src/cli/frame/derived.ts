import { oneOf, type Read, readName, readPresentName, readUuid } from '../../domain/field.ts';
import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import type { Properties, Schema } from '../../domain/settings/schema.ts';
import * as schemas from '../../domain/settings/schema.ts';
import type { Setting } from '../../domain/settings/setting.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import { Refused } from '../../operations/frame/refused.ts';
import {
  type Call,
  type OnCommandLine,
  type Operation,
  paramsOf,
} from '../../operations/frame/row.ts';
import { rowsOf } from '../../store/company/company.ts';
import {
  ArgumentError,
  type Command,
  command,
  type Options,
  optional,
  required,
  someChange,
} from './command.ts';
import { callerOf, changeOptions, newOptions, optionText, settingCells } from './setting.ts';
import { type Cell, card, instant, listing, minute, yesNo } from './text.ts';

type Thing = Readonly<Record<string, unknown>>;

/** The commands of operations: one for each row that has one. */
export function derived(operations: readonly Operation[]): Command[] {
  return operations.flatMap((operation) =>
    operation.command === undefined ? [] : commandOf(operation, operation.command),
  );
}

function commandOf(operation: Operation, face: OnCommandLine): Command {
  const { noun, verb = verbOf(operation.id), differs, columns, named, settings = {} } = face;
  const { path, status, method, summary, run } = operation;
  const params = paramsOf(path);
  const own = columns === undefined && status !== 201 ? params.at(-1) : undefined; // what is listed or made has no id yet
  const body = differs?.body ?? operation.body ?? schemas.object({});
  const members = Object.keys(body.properties);
  const rows = Object.fromEntries(
    Object.entries(settings).filter(([column]) => members.includes(column)),
  );
  const options: Options = {
    ...(own === undefined
      ? optionsOf(Object.fromEntries(params.map((param) => [param, schemas.id])))
      : named && optionsOf(named.members)),
    ...(columns && optionsOf(differs?.filters ?? filtersOf(operation), [])),
    ...optionsOf(body.properties, body.required as string[], Object.keys(rows)),
    ...(method === 'patch' ? changeOptions(rows) : newOptions(rows, face.takesNone)),
  };
  return command<Options, string>({
    name: `${noun} ${verb}`,
    summary: face.summary ?? inOneSentence(summary),
    operand:
      own === undefined || named !== undefined
        ? undefined
        : { shown: face.operand ?? 'ID', meaning: fromList(noun), read: readUuid },
    options,
    notes: face.notes,
    async run(context, values, id) {
      const given = values as Readonly<Record<string, string>>;
      if (columns !== undefined) {
        const found = await context.transact(async (sql) =>
          rowsOf(
            sql,
            given.company ?? given.company_id ?? null,
            (await face.all?.(sql, given)) as Thing[],
          ),
        );
        const shown = found.map((row) => ({ ...row, ...face.more?.(row) }) as Thing);
        const cells = columns.map((name) => [
          headingOf(name),
          (row: Thing) => cellOf(name, row[name]),
        ]);
        const right = columns.filter((name) => shown.some((row) => isNumber(name, row[name])));
        const text = listing(
          shown,
          Object.fromEntries(cells),
          face.empty ?? '',
          right.map(headingOf),
        );
        return { json: found, text };
      }
      const asked = Object.fromEntries(members.map((member) => [member, values[member]]));
      if (method === 'patch') someChange(asked);
      const change = differs?.run ?? run;
      const thing = await context
        .transact(async (sql) => {
          const which = own && { [own]: named ? await named.find(sql, given) : id };
          const { company = '' } = given;
          const call = { role: 'operator', origin: '', company, query: {}, body: asked } as const;
          // a command names the thing alone: null stands for the company of the path
          const nobody = Object.fromEntries(params.map((param) => [param, null]));
          const asking = { ...call, params: { ...nobody, ...given, ...which } };
          return change(sql, {
            ...callerOf(context, settings),
            ...asking,
          } as unknown as Call<never>);
        })
        .catch((error: unknown) => {
          if (!(error instanceof Refused) || error.kind !== 'wrong') throw error;
          const [mistake = { pointer: '', detail: error.message }] = error.mistakes;
          throw new ArgumentError(optionText(namesOf(options), mistake));
        });
      const done = face.done ?? `${sentence(noun)} ${PAST[verb] ?? `${verb}d`}.`;
      return { json: thing, text: card(done, cardOf(thing as Thing, face)) };
    },
  });
}

/** The sentence of HTTP as a command has it: its list has the order of people. */
function inOneSentence(summary: string): string {
  const text = summary.replace(/, ordered by id$/, '');
  const lower = (start: string) => start.toLowerCase().replace('.', ';');
  return text.charAt(0).toLowerCase() + text.slice(1).replaceAll(/\. [A-Z](?=[a-z ])/g, lower);
}

const fromList = (noun: string) => `its id, from "tollgate ${noun} list"`;
const sentence = (noun: string) => noun.charAt(0).toUpperCase() + noun.slice(1).replace('-', ' ');
const PAST: Readonly<Record<string, string>> = { set: 'changed', create: 'created' };

/** "set" of changeGroup. */
function verbOf(id: string): string {
  const [verb = ''] = /^[a-z]+/.exec(id) ?? [];
  return verb === 'change' ? 'set' : verb;
}

/** What a list is narrowed by, without its page. */
function filtersOf({ query }: Operation): Properties {
  const { cursor: _, limit: __, ...filters } = query?.properties ?? {};
  return filters;
}

/** How values of a schema are read that are no settings. */
const READERS: readonly (readonly [Schema, string, Read<string>])[] = [
  [schemas.id, 'ID', readUuid],
  [schemas.name, 'NAME', readName],
  [schemas.presentName, 'NAME', readPresentName],
  [schemas.costCenter, 'NAME', readBudgetedCostCenter],
];

function optionsOf(
  properties: Properties,
  needed: readonly string[] = Object.keys(properties),
  but: readonly string[] = [],
): Options {
  const entries = Object.entries(properties).filter(([member]) => !but.includes(member));
  return Object.fromEntries(
    entries.map(([member, schema]) => {
      const {
        enum: values,
        description = '',
        pattern,
        format,
      } = schema as Schema & {
        enum?: readonly string[];
        description?: string;
      };
      const name = member.replace(/_id$/, '').replaceAll('_', '-');
      const [, shown = name.toUpperCase(), read = oneOf(...(values ?? []))] =
        READERS.find(([each]) => each.pattern === pattern && each.format === format) ?? [];
      const isPlainId = description === schemas.id.description;
      const meaning = isPlainId
        ? `id of the ${name}`
        : description || `one of ${values?.join(', ')}`;
      const make = needed.includes(member) ? required : optional;
      return [member, make(`--${name} ${shown}`, read as Read<string>, meaning)];
    }),
  );
}

/** Options as `optionText` reads them. */
function namesOf(options: Options): Readonly<Record<string, Pick<Setting, 'option'>>> {
  return Object.fromEntries(
    Object.entries(options).map(([member, { shown }]) => [member, { option: shown }]),
  );
}

function cardOf(thing: Thing, { settings = {}, hidden = [], more }: OnCommandLine) {
  const plain = Object.entries({ ...thing, ...more?.(thing) }).filter(
    ([member, value]) =>
      !(member in settings || hidden.includes(member)) &&
      (value !== null || member === 'company_id'),
  );
  const shown = Object.entries(settings).filter(([column]) => !hidden.includes(column));
  return {
    ...Object.fromEntries(
      plain.map(([member, value]) => [labelOf(member), cellOf(member, value, instant)]),
    ),
    ...settingCells(Object.fromEntries(shown), thing),
  };
}

/** "company" of `company_id`, and of `company_name`. */
function labelOf(member: string): string {
  return member.replace(/(?<=company)_(id|name)$|_(at|slug)$/, '').replaceAll('_', ' ');
}

function headingOf(member: string): string {
  const isTime = member.endsWith('_at') || /^\w+_seen$/.test(member);
  return `${labelOf(member).toUpperCase()}${isTime ? ' (UTC)' : ''}`;
}

function cellOf(member: string, value: unknown, time: (at: Date) => string = minute): Cell {
  if (value == null) return member.startsWith('company_') ? 'all' : null;
  if (value instanceof Date) return time(value);
  if (member.endsWith('_by')) return actorName(value as string);
  return typeof value === 'boolean' ? yesNo(value) : (value as Cell);
}

function isNumber(member: string, value: unknown): boolean {
  return typeof value === 'number' || member.endsWith('_eur');
}
