import { oneOf, type Read, readName, readPresentName, readUuid } from '../../domain/field.ts';
import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import type { Properties, Schema } from '../../domain/settings/schema.ts';
import * as schema from '../../domain/settings/schema.ts';
import {
  type Call,
  type OnCommandLine,
  type Operation,
  paramsOf,
} from '../../operations/frame/row.ts';
import { type Command, nameOf, type Options, optional, required, someChange } from './command.ts';
import { commandsOf } from './noun.ts';
import { changeOptions, newOptions } from './setting.ts';
import { cellOf, instant, labelOf, plainly } from './text.ts';

type Thing = Readonly<Record<string, unknown>>;

/** The commands of operations: one for each row that has one. */
export function derived(operations: readonly Operation[]): Command[] {
  return operations.flatMap((operation) =>
    operation.command === undefined ? [] : commandOf(operation, operation.command),
  );
}

/** What commands are called by the methods of their rows, and what they have done. */
const VERBS = {
  get: ['list', ''],
  post: ['create', 'created'],
  patch: ['set', 'changed'],
  delete: ['remove', 'removed'],
} as const;

function commandOf(operation: Operation, face: OnCommandLine): Command {
  const { method, path, status, run } = operation;
  const { noun, all, columns = [], differs, settings = {}, hidden = [], more } = face;
  const [usual, past] = VERBS[method];
  const { cursor: _, limit: __, ...query } = operation.query?.properties ?? {};
  const body = differs?.body ?? operation.body ?? schema.object({});
  const others = only(body.properties, (member) => !(member in settings));
  const taken = only(settings, (member) => member in body.properties);
  const isOne = all === undefined && status !== 201; // what is listed or made has no id yet
  const named = isOne ? face.named : undefined;
  const ofPath = Object.fromEntries(paramsOf(path).map((param) => [param, schema.id]));
  const [first = '', ...notes] = operation.summary.replace(/, ordered by id$/, '').split('. ');
  const about = {
    summary: face.summary ?? first.charAt(0).toLowerCase() + first.slice(1),
    notes: [...notes.map((note) => `${note}.`), face.notes ?? []].flat().join(' '),
    options: {
      ...optionsOf(isOne ? (named?.members ?? {}) : ofPath),
      ...optionsOf(differs?.filters ?? query, []),
      ...optionsOf(others, body.required as string[]),
      ...(method === 'patch' ? changeOptions(taken) : newOptions(taken, face.takesNone)),
    },
  };
  const whole = (thing: Thing): Thing => ({ ...thing, ...more?.(thing) });
  const commands = commandsOf<Thing>(
    noun,
    only(settings, (member) => !hidden.includes(member)),
    (thing) =>
      Object.fromEntries(
        Object.entries(whole(thing))
          .filter(([member]) => !(member in settings || hidden.includes(member)))
          .map(([member, value]) => [labelOf(member), cellOf(member, value, instant)] as const)
          .filter(([, cell]) => cell !== null),
      ),
  );
  if (all !== undefined)
    return commands.list<Options, Thing>({
      ...about,
      read: (sql, values) => all(sql, values as never) as Promise<Thing[]>,
      columns: () =>
        Object.fromEntries(
          Object.entries(plainly(...columns)).map(([heading, cell]) => [
            heading,
            (row) => cell(whole(row)),
          ]),
        ),
      empty: face.empty ?? '',
    });
  return commands.verb(
    face.verb ?? usual,
    past,
  )<Options, Thing, string>({
    ...about,
    ...(face.done || face.verb ? { done: face.done ?? 'Done.' } : {}),
    operand:
      isOne && named === undefined
        ? {
            shown: face.operand ?? 'ID',
            meaning: `its id, from "tollgate ${noun} list"`,
            read: readUuid,
          }
        : undefined,
    async change(sql, caller, values, operand) {
      const texts = values as Readonly<Record<string, string>>;
      const members = only(values, (member) => member in body.properties);
      if (method === 'patch') someChange(members);
      const id = named ? await named.find(sql, texts) : operand;
      // a command names the thing alone: null stands for the company of the path
      const call = {
        ...caller,
        company: texts.company ?? null,
        id,
        params: {},
        query: {},
        body: members,
      };
      return (await (differs?.run ?? run)(sql, call as unknown as Call<never>)) as Thing;
    },
  });
}

function only<T>(members: Readonly<Record<string, T>>, which: (member: string) => boolean) {
  return Object.fromEntries(Object.entries(members).filter(([member]) => which(member)));
}

/** How values of a schema are read that are no settings, by its format or its pattern. */
const READERS: Readonly<Record<string, readonly [string, Read<string>]>> = {
  [schema.id.pattern as string]: ['ID', readUuid],
  [schema.presentName.pattern as string]: ['NAME', readPresentName],
  name: ['NAME', readName],
  'cost-center': ['NAME', readBudgetedCostCenter],
};

/** What options are told of a schema. */
type Shape = Schema &
  Partial<Record<'description' | 'pattern' | 'format', string>> & { readonly enum?: string[] };

function optionsOf(properties: Properties, needed = Object.keys(properties)): Options {
  return Object.fromEntries(
    Object.entries(properties).map(([member, property]) => {
      const { enum: values = [], description, pattern = '', format = pattern } = property as Shape;
      const name = nameOf(member);
      const [shown, read] = READERS[format] ?? [name.toUpperCase(), oneOf(...values)];
      const meaning = description === schema.id.description ? `id of the ${name}` : description;
      const make = needed.includes(member) ? required : optional;
      return [
        member,
        make(`--${name} ${shown}`, read as Read<string>, meaning ?? `one of ${values.join(', ')}`),
      ];
    }),
  );
}
