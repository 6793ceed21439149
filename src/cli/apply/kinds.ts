import type { Read } from '../../domain/field.ts';
import { isOver } from '../../domain/key.ts';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { readMoment } from '../../domain/price.ts';
import { costCenterName, readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { KEY, NETWORKS } from '../../domain/settings/key.ts';
import { modelPrices } from '../../domain/settings/model.ts';
import type { ObjectSchema } from '../../domain/settings/schema.ts';
import { eachSetting, neededOf } from '../../domain/settings/setting.ts';
import type { CompanyRole, Role } from '../../domain/user.ts';
import { emailSpelling } from '../../domain/visible-text.ts';
import type { Call, Operation } from '../../operations/frame/row.ts';
import {
  changeKey,
  changeKeyText,
  createKey,
  type KeyMaker,
  type KeySettings,
  type KeyText,
  pauseKey,
  resumeKey,
  revokeKey,
} from '../../operations/key.ts';
import { OPERATIONS } from '../../operations/list.ts';
import { changeRole, createUser, removeUser } from '../../operations/user.ts';
import type { AssistantRow } from '../../store/company/assistant.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import { listCostCenterBudgets } from '../../store/company/cost-center.ts';
import type { KeyRow } from '../../store/company/key.ts';
import { listModels } from '../../store/company/model.ts';
import { endOf } from '../../store/connection/expressions.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { groupsNamed } from '../../store/users/group.ts';
import { findUser } from '../../store/users/user.ts';
import type { Step } from './difference.ts';
import { finder, type NoteMistake } from './named.ts';
import { wantedPrices } from './prices.ts';
import type * as wanted from './schema.ts';
import { readKeyText } from './secrets.ts';

/** The kinds of things that a file names: how each is found, created, changed and removed. */

/** One run through a file, as far as kinds know of it. */
export interface Run {
  readonly sql: Sql;
  readonly mistake: NoteMistake;
  /** What there was at the beginning, by company. */
  readonly assistantsOf: ReadonlyMap<string, AssistantRow[]>;
  readonly keysOf: ReadonlyMap<string, KeyRow[]>;
  /** The file, which asks for an operation. @param at the entry */
  callerAt(at: string): KeyMaker;
  /** @param read throws an error that says what the secret must be, without it @returns null: it is a mistake */
  secret(reference: wanted.SecretReference, at: string, read: Read<string>): string | null;
  readonly texts: KeyTextAt[];
  readonly steps: Step[];
}

/** A key that gets its text when all texts of the file are known. */
export type KeyTextAt = KeyText & { readonly at: string };

/** An entry of a list, and the thing that it means. */
interface Entry {
  /** "model fast of Acme". */
  readonly what: string;
  /** null: there is none. */
  readonly row: object | null;
  /** What its members are to be. */
  readonly settings: object;
  /** Members that something new needs. */
  readonly needed: readonly string[];
  /** Further changes, in words; `after` makes them. */
  readonly more?: readonly string[];
  /** @returns false: there is a mistake, which is noted */
  create(): Promise<unknown>;
  change(): Promise<unknown>;
  remove(): Promise<unknown>;
  after?(): Promise<void>;
}

/** @template W an entry of its list */
export interface ListKind<W> {
  /** What an entry is called, and what is the same of two that are the same; absent: `find` refuses them. */
  name?(wanted: W): string;
  same?(wanted: W): unknown;
  /** What is to be absent anywhere is removed before anything else is done: an address and a group are of one place at a time. */
  readonly leavesFirst?: true;
  /**
   * Finds what the entries mean. @param owner null: what belongs to no company
   * @returns one of them at its place; null: there is nothing to do
   */
  find(
    run: Run,
    all: readonly W[],
    owner: CompanyRow | null,
    at: string,
  ): Promise<(wanted: W, at: string, n: number) => Promise<Entry | null>>;
}

const models: ListKind<wanted.WantedModel> = {
  name: ({ slug }) => slug,
  async find(run, _all, owner) {
    const { sql, mistake } = run;
    const company_id = owner?.id ?? null;
    const rows = (await listModels(sql, company_id)).filter((row) => row.company_id === company_id);
    return async (wanted, at) => {
      const { absent, slug, prices: _, cost_prices: _costs, ...rest } = wanted;
      const named = { slug, company_id };
      const { present, steps } = await wantedPrices(
        sql,
        (place) => run.callerAt(place),
        named,
        absent ? { slug } : wanted,
        at,
        mistake,
      );
      const settings = {
        ...rest,
        ...(present && { ...modelPrices(present), rates: present.rates }),
      };
      return {
        what: `model ${slug}${of(owner)}`,
        ...byRows(
          run,
          'Model',
          at,
          rows.find((each) => each.slug === slug) ?? null,
          named,
          settings,
        ),
        more: steps.map(({ change }) => change),
        async after() {
          for (const step of steps) await step.make();
        },
      };
    };
  },
};

const assistants: ListKind<wanted.WantedAssistant> = {
  async find(run, all, company, at) {
    const owner = company as CompanyRow;
    const rows = run.assistantsOf.get(owner.id) ?? [];
    const find = finder(
      all,
      rows,
      ['assistant of the company', 'assistants of the company'],
      at,
      run.mistake,
    );
    return async ({ absent: _, id: _id, ...settings }, at, n) => {
      const row = find(n);
      if (row === undefined) return null;
      return {
        what: `assistant ${settings.name}${of(owner)}`,
        ...byRows(run, 'Assistant', at, row, {}, settings, owner.id),
      };
    };
  },
};

const keys: ListKind<wanted.WantedKey> = {
  async find(run, all, company, at) {
    const owner = company as CompanyRow;
    const { sql } = run;
    const known = run.keysOf.get(owner.id) ?? [];
    const rows = known.filter(({ state }) => !isOver(state));
    const find = finder(all, rows, ['key of the company', 'keys of the company'], at, run.mistake);
    return async ({ absent: _, id: given, value, paused, ...rest }, at, n) => {
      if (known.some((each) => each.id === given && isOver(each.state))) return null; // the older of two ends by itself
      const { expires_at: expires } = rest;
      const settings = {
        ...rest,
        ...eachSetting(
          NETWORKS,
          ({ read }, column) => rest[column]?.map((text) => read(text) as string) ?? rest[column],
        ),
        expires_at: typeof expires === 'string' ? await endOf(sql, readMoment(expires)) : expires,
      };
      const row = find(n);
      if (row === undefined) return null;
      const caller = run.callerAt(at);
      const what = `key ${rest.name}${of(owner)}`;
      const id = row?.id as string;
      const pause = async (key: string) => {
        if (paused === undefined || paused === (row && pausedIn(row))) return;
        const operator = { role: 'operator' } as const;
        if (paused === null) await resumeKey(sql, operator, key, owner.id);
        else await pauseKey(sql, operator, key, owner.id, paused);
      };
      const text = () =>
        value === undefined ? null : run.secret(value, `${at}/value`, readKeyText);
      return {
        what,
        row: row && { ...row, paused: pausedIn(row) },
        settings: { ...settings, paused },
        needed: [...neededOf(KEY), ...(value === undefined ? ['value'] : [])],
        async create() {
          const key = text();
          if (key === null) return false;
          const made = { ...(settings as KeySettings), key };
          run.texts.push({
            id: null,
            key,
            at,
            give: async () => pause((await createKey(sql, caller, owner.id, made)).id),
          });
        },
        async change() {
          await changeKey(sql, caller, id, owner.id, settings);
          await pause(id);
        },
        remove: () => revokeKey(sql, caller, id, owner.id),
        /** A key whose text is another now gets it: the old text stops working at once. */
        async after() {
          const key = row === null ? null : text();
          if (key === null) return;
          const give = async () => {
            const isNew = await changeKeyText(sql, id, key);
            if (isNew) run.steps.push({ done: 'change', what, changes: ['its text: another one'] });
          };
          run.texts.push({ id, key, at, give });
        },
      };
    };
  },
};

const users: ListKind<wanted.WantedUser> = {
  name: ({ email }) => emailSpelling(email),
  leavesFirst: true,
  async find(run, _all, owner) {
    const { sql } = run;
    const company_id = owner?.id ?? null;
    return async ({ absent, email: given, role: asked, password }, at) => {
      const email = emailSpelling(given);
      const row = await findUser(sql, email);
      if (row !== null && row.company_id !== company_id) {
        if (!absent) run.mistake(`${at}/email`, 'is the address of a user elsewhere');
        return null;
      }
      const role = (asked ?? (owner === null ? 'operator' : undefined)) as Role;
      const id = row?.id as string;
      return {
        what: `user ${email}${of(owner)}`,
        row,
        settings: { role },
        needed: ['role'],
        async create() {
          const text = password && run.secret(password, `${at}/password`, readPassword);
          if (text === null) return false;
          const hash = text === undefined ? null : await hashPassword(text);
          await createUser(sql, { email, role, company_id }, hash);
        },
        change: () =>
          changeRole(sql, { role: 'operator' }, company_id as string, id, role as CompanyRole), // operators have one role
        remove: () => removeUser(sql, id),
      };
    };
  },
};

const oidc_groups: ListKind<wanted.WantedGroup> = {
  name: ({ name }) => name,
  leavesFirst: true,
  async find(run, all, owner) {
    const { sql } = run;
    const company_id = owner?.id ?? null;
    const names = all.map(({ name }) => name);
    const rows = await groupsNamed(sql, names);
    return async ({ absent, name, role }, at) => {
      const row = rows.find((each) => each.name === name) ?? null;
      if (row !== null && row.company_id !== company_id) {
        if (!absent)
          run.mistake(
            `${at}/name`,
            'is a group that gives a role elsewhere: remove it there first',
          );
        return null;
      }
      return {
        what: `group ${name}${of(owner)}`,
        ...byRows(run, 'Group', at, row, { name, company_id }, { role }),
      };
    };
  },
};

const cost_centers: ListKind<wanted.WantedCostCenter> = {
  name: ({ name }) => name,
  same: ({ name }) => costCenterName(name),
  async find(run, _all, company) {
    const owner = company as CompanyRow;
    const rows = await listCostCenterBudgets(run.sql, [owner.id]);
    return async ({ absent: _, name: given, ...settings }, at) => {
      const name = readBudgetedCostCenter(given); // schema.ts has let it pass
      const row = rows.find((each) => each.name === name) ?? null;
      return {
        what: `budget of cost centre ${name}${of(owner)}`,
        ...byRows(run, 'CostCenterBudget', at, row, { name }, settings, owner.id),
      };
    };
  },
};

/**
 * What is to be one thing, by the rows of its noun. Keys and users are written by hand: a file gives a key its text once
 * all texts are known, and pauses it; it gives a user a password, and refuses the address of one elsewhere.
 * @param named the members that a file finds it by
 */
function byRows(
  run: Run,
  noun: string,
  at: string,
  row: { readonly id: string } | null,
  named: object,
  settings: object,
  company?: string,
) {
  const rowOf = (verb: string) => OPERATIONS.find(({ id }) => id === verb + noun) as Operation;
  const { required } = rowOf('create').body as ObjectSchema;
  const by =
    (verb: string, body = {}) =>
    () =>
      rowOf(verb).run(run.sql, { ...run.callerAt(at), company, id: row?.id, body } as Call);
  return {
    row,
    settings,
    needed: (required as string[]).filter((member) => !(member in named)),
    create: by('create', { ...named, ...settings }),
    change: by('change', settings),
    remove: by('remove'),
  };
}

/** By the members of a file that list them; the lists of a company come in this order. */
export const LISTS = { models, assistants, keys, users, oidc_groups, cost_centers };

/** The pause of a row, as a file tells it. */
export function pausedIn({
  paused_at,
  pause_reason,
}: Pick<CompanyRow, 'paused_at' | 'pause_reason'>): string | null {
  return paused_at && (pause_reason ?? 'without a reason');
}

const of = (owner: CompanyRow | null): string => (owner === null ? '' : ` of ${owner.name}`);
