import type { Read } from '../../domain/field.ts';
import { DISABLED_MODELS } from '../../domain/gate.ts';
import { Refused } from '../../domain/refusal.ts';
import { differences } from '../../domain/settings/difference.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import {
  changeCompany,
  createCompany,
  pauseCompany,
  resumeCompany,
} from '../../operations/company.ts';
import type { Mistake } from '../../operations/frame/refused.ts';
import { giveKeyTexts, type KeyMaker } from '../../operations/key.ts';
import { type AssistantRow, assistantsOf } from '../../store/company/assistant.ts';
import { type CompanyRow, companiesOf } from '../../store/company/company.ts';
import { lockName } from '../../store/company/idempotent-form.ts';
import { type KeyRow, keysOf } from '../../store/company/key.ts';
import { databaseError } from '../../store/connection/errors.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { Failure } from '../frame/command.ts';
import { ACTOR } from '../frame/database.ts';
import { inWords, type Step, valueText } from './difference.ts';
import { type KeyTextAt, LISTS, type ListKind, pausedIn, type Run } from './kinds.ts';
import { finder, type NoteMistake, refuseTwice } from './named.ts';
import { wantedFactors } from './prices.ts';
import type { WantedFile } from './read.ts';
import type { Removable, SecretReference, Wanted, WantedCompany } from './schema.ts';
import { readSecret } from './secrets.ts';

interface ApplyOptions {
  readonly keyPrefix: string;
  readonly env: NodeJS.ProcessEnv;
}

/** Lists whose entries may be `absent: true`. A name in them, an address or a group, belongs to one company at a time. */
type Leaving = Pick<WantedCompany, 'users' | 'oidc_groups'>;

/**
 * Makes the database what a file says, in a transaction of the caller: all of it, or nothing.
 * @returns what was done, in order; nothing when all is so already
 * @throws Failure all that the present state does not allow
 */
export async function apply(sql: Sql, file: WantedFile, options: ApplyOptions): Promise<Step[]> {
  const run = new Application(sql, file, options);
  await run.all();
  return run.steps;
}

/** One run through a file. Mistakes are collected, and thrown together at the end. */
class Application implements Run {
  readonly steps: Step[] = [];
  readonly sql: Sql;
  readonly #file: WantedFile;
  readonly #options: ApplyOptions;
  readonly #mistakes: string[] = [];
  readonly mistake: NoteMistake = (at, detail) => {
    this.#mistakes.push(this.#file.mistake(at, detail));
  };
  /** Assistants and keys as they were at the beginning, by company. */
  assistantsOf = new Map<string, AssistantRow[]>();
  keysOf = new Map<string, KeyRow[]>();
  readonly texts: KeyTextAt[] = [];
  /** The place in the file that is looked at, as a JSON Pointer. */
  #at = '';

  constructor(sql: Sql, file: WantedFile, options: ApplyOptions) {
    this.sql = sql;
    this.#file = file;
    this.#options = options;
  }

  async all(): Promise<void> {
    // two commands at once would both create what is missing: the second one waits for the first
    await lockName(this.sql, 'tollgate apply');
    try {
      await this.#everything(this.#file.wanted);
    } catch (error) {
      const refused = databaseError(error);
      if (!(refused instanceof Refused)) throw error;
      this.mistake(this.#at, `is refused: ${refused.message}`); // the last mistake: the transaction has failed
    }
    if (this.#mistakes.length > 0) throw new Failure(...this.#mistakes);
  }

  async #everything({
    models = [],
    companies = [],
    operators = [],
    oidc_groups = [],
  }: Wanted): Promise<void> {
    await this.#list('models', models, null, '/models');
    const rows = await companiesOf(this.sql, companies);
    await this.#readContents(
      companies,
      rows.map(({ id }) => id),
    );
    const find = finder(companies, rows, ['company', 'companies'], '/companies', this.mistake);
    const found = companies.map((wanted, n) => ({ wanted, row: find(n), at: `/companies/${n}` }));
    // removals come first, because an address or a group belongs to one company at a time; the last operator stays
    for (const { wanted, row, at } of found)
      if (row?.closed_at === null) await this.#leaving(wanted, row, at);
    await this.#list('users', operators, null, '/operators');
    await this.#leaving({ users: operators, oidc_groups }, null, '');
    for (const { wanted, row, at } of found) {
      this.#at = at;
      if (row !== undefined) await this.#company(wanted, row, at);
    }
    await this.#list('oidc_groups', oidc_groups, null, '/oidc_groups');
    await this.#giveTexts(this.texts);
  }

  /** Removes users and groups. @param owner null: the operators and their groups */
  async #leaving(
    { users, oidc_groups }: Leaving,
    owner: CompanyRow | null,
    at: string,
  ): Promise<void> {
    await this.#list('users', users, owner, owner === null ? '/operators' : `${at}/users`, true);
    await this.#list('oidc_groups', oidc_groups, owner, `${at}/oidc_groups`, true);
  }

  async #giveTexts(texts: readonly KeyTextAt[]): Promise<void> {
    await giveKeyTexts(this.sql, texts, ({ at }) => {
      this.#at = at;
    });
  }

  /** Reads assistants and keys of all companies at once: a query for each company would take a second for a thousand. */
  async #readContents(wanted: readonly WantedCompany[], ids: readonly string[]): Promise<void> {
    const owner = (row: { readonly company_id: string }) => row.company_id;
    if (wanted.some(({ assistants = [] }) => assistants.length > 0)) {
      this.assistantsOf = Map.groupBy(await assistantsOf(this.sql, ids), owner);
    }
    const keys = wanted.flatMap(({ keys = [] }) => keys);
    if (keys.length === 0) return;
    const given = keys.flatMap(({ id }) => id ?? []);
    this.keysOf = Map.groupBy(await keysOf(this.sql, ids, given), owner);
  }

  async #company(wanted: WantedCompany, row: CompanyRow | null, at: string): Promise<void> {
    if (row === null || row.closed_at === null) return this.#contents(wanted, row, at);
    // a file of export-config names closed companies too, and changes nothing of them
    await this.sql`savepoint closed_company`;
    const before = this.texts.length;
    try {
      await this.#contents(wanted, row, at);
      await this.#leaving(wanted, row, at);
      await this.#giveTexts(this.texts.splice(before));
    } catch (error) {
      const refused = databaseError(error);
      if (!(refused instanceof Refused)) throw error;
      await this.sql`rollback to savepoint closed_company`;
      this.mistake(
        at,
        `differs from ${row.name}: ${refused.message} Reopen it first, or leave it out`,
      );
    }
  }

  /** @param present null: the company is to be created */
  async #contents(wanted: WantedCompany, present: CompanyRow | null, at: string): Promise<void> {
    const {
      id: _,
      models,
      assistants,
      keys,
      users,
      oidc_groups,
      cost_centers,
      paused,
      price_factors = [],
      ...rest
    } = wanted;
    const lists = { assistants, keys, users, oidc_groups, cost_centers };
    const caller = this.callerAt(at);
    const places = `${at}/price_factors`;
    const factors = await wantedFactors(
      this.sql,
      caller,
      present?.id ?? null,
      price_factors,
      places,
      this.mistake,
    );
    const more = factors.steps.map(({ change }) => change);
    const { factor } = factors.present ?? {};
    const { [DISABLED_MODELS]: slugs, ...settings } = {
      ...rest,
      ...(factor !== undefined && { price_factor: factor }),
    };
    let row = present;
    if (row === null) {
      // a file of another deployment may set a budget above the ceiling: it is not judged, and the ceiling holds
      row = await createCompany(this.sql, { judge: () => {} }, settings);
      this.#step('create', `company ${wanted.name}`, {}, settings, more);
    } else if (this.#step('change', `company ${row.name}`, row, settings, more)) {
      const changes = differences(row, settings).map(({ member, to }) => [member, to]);
      await changeCompany(this.sql, caller, row.id, Object.fromEntries(changes));
    }
    for (const step of factors.steps) await step.make(row.id);
    await this.#list('models', models, row, `${at}/models`);
    this.#at = at;
    const disabled = { [DISABLED_MODELS]: slugs };
    if (slugs !== undefined && this.#step('change', `company ${wanted.name}`, row, disabled)) {
      await changeCompany(this.sql, caller, row.id, disabled);
    }
    if (this.#step('change', `company ${wanted.name}`, { paused: pausedIn(row) }, { paused })) {
      if (paused === null) await resumeCompany(this.sql, row.id);
      else await pauseCompany(this.sql, row.id, paused as string);
    }
    for (const name of namesOf(lists)) await this.#list(name, lists[name], row, `${at}/${name}`);
  }

  /**
   * Goes through a list.
   * @param owner the company of the entries; null: they belong to none
   * @param leaving true: only absent entries of the kinds that are removed first; false: all other entries
   */
  async #list(
    name: keyof typeof LISTS,
    all: readonly Removable[] = [],
    owner: CompanyRow | null,
    at: string,
    leaving = false,
  ): Promise<void> {
    if (all.length === 0) return;
    const kind: ListKind<Removable> = LISTS[name] as ListKind<object>;
    if (kind.name !== undefined && !leaving)
      refuseTwice(this.mistake, all, kind.name, at, kind.same);
    const find = await kind.find(this, all, owner, at);
    for (const [n, wanted] of all.entries()) {
      const { absent = false } = wanted;
      if (kind.leavesFirst && absent !== leaving) continue;
      this.#at = `${at}/${n}`;
      const entry = await find(wanted, this.#at, n);
      if (entry === null) continue;
      const { what, row, settings, needed, more } = entry;
      if (absent) {
        if (row === null) continue;
        await entry.remove();
        this.#step('remove', what, {}, {});
        continue;
      }
      if (row === null) {
        if (!this.#has(settings, needed) || (await entry.create()) === false) continue;
        this.#step('create', what, {}, settings, more);
      } else if (this.#step('change', what, row, settings, more)) await entry.change();
      await entry.after?.();
    }
  }

  /** Adds a step to the plan. @param more further changes, in words @returns whether a setting differs */
  #step(
    done: Step['done'],
    what: string,
    now: object,
    wanted: object,
    more: readonly string[] = [],
  ): boolean {
    const differing = differences(now, wanted);
    if (done === 'change' && differing.length + more.length === 0) return false;
    const changes = differing.map((each) =>
      done === 'change' ? inWords(each) : `${each.member}: ${valueText(each.to)}`,
    );
    this.steps.push({ done, what, changes: [...changes, ...more] });
    return differing.length > 0;
  }

  callerAt(at: string): KeyMaker {
    const judge = (mistakes: readonly Mistake[]) => {
      const refused = mistakes.filter(({ severity }) => severity !== 'ask');
      for (const { pointer, detail } of refused) this.mistake(`${at}${pointer.slice(1)}`, detail);
    };
    return { actor: ACTOR, services: this.#options, judge };
  }

  #has(settings: object, members: readonly string[]): boolean {
    const missing = members.filter(
      (member) => (settings as Record<string, unknown>)[member] === undefined,
    );
    if (missing.length > 0)
      this.mistake(this.#at, `does not exist yet, and needs ${missing.join(', ')}`);
    return missing.length === 0;
  }

  secret(reference: SecretReference, at: string, read: Read<string>): string | null {
    try {
      return read(readSecret(reference, this.#options.env));
    } catch (error) {
      this.mistake(at, (error as Error).message);
      return null;
    }
  }
}
