import type { Read } from '../../domain/field.ts';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { readMoment } from '../../domain/price.ts';
import { readCidr } from '../../domain/request/cidr.ts';
import { costCenterName } from '../../domain/request/cost-center.ts';
import type { Scope } from '../../domain/scope.ts';
import { MODEL } from '../../domain/settings/model.ts';
import { neededOf } from '../../domain/settings/setting.ts';
import { RefusedChange } from '../../domain/text/refused-change.ts';
import type { CompanyRole, Role } from '../../domain/user.ts';
import { changeAssistant, createAssistant, removeAssistant } from '../../operations/assistant.ts';
import { changeCompany, createCompany } from '../../operations/company.ts';
import { changeKey, changeKeyText, createKey, type KeyMaker, revokeKey } from '../../operations/key.ts';
import { changeModel, createModel, removeModel } from '../../operations/model.ts';
import { type AssistantRow, assistantsOf } from '../../store/company/assistant.ts';
import { type CompanyRow, companiesOf } from '../../store/company/company.ts';
import { lockName } from '../../store/company/idempotent-form.ts';
import { freeKeyTexts, type KeyRow, keysOf } from '../../store/company/key.ts';
import { listModels, type NewModel } from '../../store/company/model.ts';
import { databaseError } from '../../store/connection/errors.ts';
import { endOf } from '../../store/connection/expressions.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { deleteGroup, groupsNamed, insertGroup, updateGroup } from '../../store/users/group.ts';
import { deleteUser, findUser, insertUser, updateRole } from '../../store/users/user.ts';
import { Failure } from '../frame/command.ts';
import { ACTOR } from '../frame/database.ts';
import { costCenterSteps } from './cost-centers.ts';
import { differences, inWords, shown } from './difference.ts';
import { finder, type NoteMistake, noting, refuseTwice } from './named.ts';
import { presentPrice, priceSteps } from './prices.ts';
import { describe, type WantedFile } from './read.ts';
import { readKeyText, readSecret } from './secrets.ts';
import type {
  SecretReference,
  Wanted,
  WantedAssistant,
  WantedCompany,
  WantedCostCenter,
  WantedGroup,
  WantedKey,
  WantedModel,
  WantedUser,
} from './wanted.ts';

/** One change, as it is printed: what is done to what, and the members that differ. */
export interface Step {
  readonly done: 'create' | 'change' | 'remove';
  readonly what: string;
  readonly changes: readonly string[];
}

interface ApplyOptions {
  readonly keyPrefix: string;
  readonly env: NodeJS.ProcessEnv;
}

/** Lists of which entries may be absent, and whose names are of one place at a time. */
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

/** A key that gets its text when all texts of the file are known: another key may have it until then. */
interface KeyText {
  /** Null: the key is to be created. */
  readonly id: string | null;
  readonly key: string;
  readonly at: string;
  give(): Promise<unknown>;
}

/** One run through a file. What is wrong is collected, and refused at the end. */
class Application {
  readonly steps: Step[] = [];
  readonly #sql: Sql;
  readonly #file: WantedFile;
  readonly #options: ApplyOptions;
  readonly #mistakes: string[] = [];
  readonly #mistake: NoteMistake = (at, detail) => {
    this.#mistakes.push(describe((pointer) => this.#file.place(pointer), at, detail));
  };
  /** What there was at the beginning, by company. */
  #assistantsOf = new Map<string, AssistantRow[]>();
  #keysOf = new Map<string, KeyRow[]>();
  #texts: KeyText[] = [];
  /** What is looked at, as a JSON Pointer. */
  #at = '';

  constructor(sql: Sql, file: WantedFile, options: ApplyOptions) {
    this.#sql = sql;
    this.#file = file;
    this.#options = options;
  }

  async all(): Promise<void> {
    // of two files at once the second waits for the end of the first: both would create what is not there
    await lockName(this.#sql, 'tollgate apply');
    try {
      await this.#everything(this.#file.wanted);
    } catch (error) {
      const refused = databaseError(error);
      if (!(refused instanceof RefusedChange)) throw error;
      this.#mistake(this.#at, `is refused: ${refused.message}`); // the last: the transaction has failed
    }
    if (this.#mistakes.length > 0) throw new Failure(...this.#mistakes);
  }

  async #everything({ models = [], companies = [], operators = [], oidc_groups = [] }: Wanted): Promise<void> {
    await this.#models(models, null, '/models');
    const rows = await companiesOf(this.#sql, companies);
    await this.#readContents(
      companies,
      rows.map(({ id }) => id),
    );
    const find = finder(companies, rows, ['company', 'companies'], '/companies', this.#mistake);
    const found = companies.map((wanted, n) => ({ wanted, row: find(n), at: `/companies/${n}` }));
    // who leaves first, because an address and a group are of one place at a time; but the last operator stays
    for (const { wanted, row, at } of found) if (row?.closed_at === null) await this.#leaving(wanted, row, at);
    await this.#users(operators, null, '/operators');
    await this.#leaving({ users: operators, oidc_groups }, null, '');
    for (const { wanted, row, at } of found) {
      this.#at = at;
      if (row !== undefined) await this.#company(wanted, row, at);
    }
    await this.#groups(oidc_groups, null, '/oidc_groups');
    await this.#giveTexts(this.#texts);
  }

  /** Removes users and groups. @param owner null: the operators and their groups */
  async #leaving({ users = [], oidc_groups = [] }: Leaving, owner: CompanyRow | null, at: string): Promise<void> {
    await this.#users(users, owner, owner === null ? '/operators' : `${at}/users`, true);
    await this.#groups(oidc_groups, owner, `${at}/oidc_groups`, true);
  }

  async #giveTexts(texts: readonly KeyText[]): Promise<void> {
    await freeKeyTexts(this.#sql, texts);
    for (const { at, give } of texts) {
      this.#at = at;
      await give();
    }
  }

  /** Reads assistants and keys of all companies at once: to ask for those of each would take a second for a thousand. */
  async #readContents(wanted: readonly WantedCompany[], ids: readonly string[]): Promise<void> {
    const owner = (row: { readonly company_id: string }) => row.company_id;
    if (wanted.some(({ assistants = [] }) => assistants.length > 0)) {
      this.#assistantsOf = Map.groupBy(await assistantsOf(this.#sql, ids), owner);
    }
    const keys = wanted.flatMap(({ keys = [] }) => keys);
    if (keys.length === 0) return;
    const given = keys.flatMap(({ id }) => id ?? []);
    this.#keysOf = Map.groupBy(await keysOf(this.#sql, ids, given), owner);
  }

  async #company(wanted: WantedCompany, row: CompanyRow | null, at: string): Promise<void> {
    if (row === null || row.closed_at === null) return this.#contents(wanted, row, at);
    // a file of export-config names closed companies too, and changes nothing of them
    await this.#sql`savepoint closed_company`;
    const before = this.#texts.length;
    try {
      await this.#contents(wanted, row, at);
      await this.#leaving(wanted, row, at);
      await this.#giveTexts(this.#texts.splice(before));
    } catch (error) {
      const refused = databaseError(error);
      if (!(refused instanceof RefusedChange)) throw error;
      await this.#sql`rollback to savepoint closed_company`;
      this.#mistake(at, `differs from ${row.name}: ${refused.message} Reopen it first, or leave it out`);
    }
  }

  /** @param present null: the company is to be created */
  async #contents(wanted: WantedCompany, present: CompanyRow | null, at: string): Promise<void> {
    const {
      id: _,
      models = [],
      assistants = [],
      keys = [],
      users = [],
      oidc_groups = [],
      cost_centers = [],
      ...rest
    } = wanted;
    const { disabled_model_slugs: slugs, ...settings } = rest;
    let row = present;
    const caller = this.#callerAt(at);
    if (row === null) {
      // of another deployment it may be above its ceiling, which holds
      row = await createCompany(this.#sql, { judge: () => {} }, settings);
      this.#step('create', `company ${wanted.name}`, {}, settings);
    } else if (this.#step('change', `company ${row.name}`, row, settings)) {
      const changes = differences(row, settings).map(({ member, to }) => [member, to]);
      await changeCompany(this.#sql, caller, row.id, Object.fromEntries(changes));
    }
    await this.#models(models, row, `${at}/models`);
    this.#at = at;
    if (slugs !== undefined && this.#step('change', `company ${wanted.name}`, row, { disabled_model_slugs: slugs })) {
      await changeCompany(this.#sql, caller, row.id, { disabled_model_slugs: slugs });
    }
    await this.#assistants(assistants, row, `${at}/assistants`);
    await this.#keys(keys, row, `${at}/keys`);
    await this.#users(users, row, `${at}/users`);
    await this.#groups(oidc_groups, row, `${at}/oidc_groups`);
    await this.#costCenters(cost_centers, row, `${at}/cost_centers`);
  }

  async #models(all: readonly WantedModel[], owner: CompanyRow | null, at: string): Promise<void> {
    if (all.length === 0) return;
    refuseTwice(this.#mistake, all, ({ slug }) => slug, at);
    const company_id = owner?.id ?? null;
    const rows = (await listModels(this.#sql, company_id)).filter((row) => row.company_id === company_id);
    for (const [n, wanted] of all.entries()) {
      this.#at = `${at}/${n}`;
      const { absent, slug, prices: _, cost_prices: _costs, ...rest } = wanted;
      const row = rows.find((each) => each.slug === slug);
      const what = `model ${slug}${of(owner)}`;
      const named = { slug, company_id };
      const settings = { ...rest, ...(await presentPrice(this.#sql, named, wanted)) };
      const caller = this.#callerAt(this.#at);
      const steps = absent ? [] : await priceSteps(this.#sql, caller, named, wanted, this.#at, this.#mistake);
      const changes = steps.map(({ change }) => change);
      if (absent) {
        if (row === undefined) continue;
        await removeModel(this.#sql, named);
        this.#step('remove', what, {}, {});
      } else if (row === undefined) {
        if (!this.#has(settings, neededOf(MODEL), `${at}/${n}`)) continue;
        await createModel(this.#sql, caller, { ...(settings as NewModel), ...named });
        this.#step('create', what, {}, settings, changes);
      } else if (this.#step('change', what, row, settings, changes)) {
        await changeModel(this.#sql, caller, named, settings);
      }
      if (!absent) for (const { run } of steps) await run();
    }
  }

  async #assistants(all: readonly WantedAssistant[], owner: CompanyRow, at: string): Promise<void> {
    if (all.length === 0) return;
    const rows = this.#assistantsOf.get(owner.id) ?? [];
    const find = finder(all, rows, ['assistant of the company', 'assistants of the company'], at, this.#mistake);
    for (const [n, { absent, id: _, ...settings }] of all.entries()) {
      this.#at = `${at}/${n}`;
      const what = `assistant ${settings.name}${of(owner)}`;
      const row = find(n);
      if (row === undefined) continue;
      const caller = this.#callerAt(this.#at);
      if (absent) {
        if (row === null) continue;
        await removeAssistant(this.#sql, row.id, owner.id);
        this.#step('remove', what, {}, {});
      } else if (row === null) {
        if (!this.#has(settings, ['system_prompt'], `${at}/${n}`)) continue;
        const system_prompt = settings.system_prompt as string;
        await createAssistant(this.#sql, caller, { ...settings, system_prompt, company_id: owner.id });
        this.#step('create', what, {}, settings);
      } else if (this.#step('change', what, row, settings)) {
        await changeAssistant(this.#sql, caller, row.id, owner.id, settings);
      }
    }
  }

  async #keys(all: readonly WantedKey[], owner: CompanyRow, at: string): Promise<void> {
    if (all.length === 0) return;
    const known = this.#keysOf.get(owner.id) ?? [];
    const rows = known.filter(({ state }) => state === 'active');
    const find = finder(all, rows, ['key of the company', 'keys of the company'], at, this.#mistake);
    for (const [n, { absent, id, value, ...rest }] of all.entries()) {
      this.#at = `${at}/${n}`;
      if (known.some((each) => each.id === id && each.state !== 'active')) continue; // the older of two ends by itself

      const { expires_at: expires, allowed_cidrs: cidrs } = rest;
      const settings = {
        ...rest,
        expires_at: typeof expires === 'string' ? await endOf(this.#sql, readMoment(expires)) : expires,
        allowed_cidrs: cidrs?.map(readCidr) ?? cidrs,
      };
      const what = `key ${rest.name}${of(owner)}`;
      const row = find(n);
      if (row === undefined) continue;
      const caller = this.#callerAt(this.#at);
      if (absent) {
        if (row === null) continue;
        await revokeKey(this.#sql, caller, row.id, owner.id);
        this.#step('remove', what, {}, {});
      } else if (row === null) {
        if (!this.#has({ ...settings, value }, ['scopes', 'value'], `${at}/${n}`) || value === undefined) continue;
        const key = this.#secret(value, `${at}/${n}/value`, readKeyText);
        if (key === null) continue;
        const made = { ...settings, scopes: settings.scopes as Scope[], key };
        const give = () => createKey(this.#sql, caller, owner.id, made);
        this.#texts.push({ id: null, key, at: this.#at, give });
        this.#step('create', what, {}, settings);
      } else {
        if (this.#step('change', what, row, settings)) await changeKey(this.#sql, caller, row.id, owner.id, settings);
        if (value !== undefined) this.#keepKeyText(row.id, what, value, `${at}/${n}`);
      }
    }
  }

  /** A key whose text is another now gets it: the old text stops working at once. */
  #keepKeyText(id: string, what: string, value: SecretReference, at: string): void {
    const key = this.#secret(value, `${at}/value`, readKeyText);
    if (key === null) return;
    const give = async () => {
      const changed = await changeKeyText(this.#sql, id, key);
      if (changed) this.steps.push({ done: 'change', what, changes: ['its text: another one'] });
    };
    this.#texts.push({ id, key, at, give });
  }

  /** @param leaving those who are to be absent, and no others; else the others alone */
  async #users(all: readonly WantedUser[], owner: CompanyRow | null, at: string, leaving = false): Promise<void> {
    if (!leaving) refuseTwice(this.#mistake, all, ({ email }) => email.toLowerCase(), at);
    for (const [n, { absent = false, email: given, role: asked, password }] of all.entries()) {
      if (absent !== leaving) continue;
      this.#at = `${at}/${n}`;
      const email = given.toLowerCase();
      const role = asked ?? (owner === null ? 'operator' : undefined);
      const what = `user ${email}${of(owner)}`;
      const row = await findUser(this.#sql, email);
      const isElsewhere = row !== null && row.company_id !== (owner?.id ?? null);
      if (isElsewhere && !absent) {
        this.#mistake(`${at}/${n}/email`, 'is the address of a user elsewhere');
      } else if (absent) {
        if (row === null || isElsewhere) continue;
        await deleteUser(this.#sql, row.id);
        this.#step('remove', what, {}, {});
      } else if (row === null) {
        if (!this.#has({ role }, ['role'], `${at}/${n}`)) continue;
        const text = password && this.#secret(password, `${at}/${n}/password`, readPassword);
        if (text === null) continue;
        const hash = text === undefined ? null : await hashPassword(text);
        await insertUser(this.#sql, { email, role: role as Role, company_id: owner?.id ?? null }, hash);
        this.#step('create', what, {}, { role });
      } else if (owner !== null && role !== undefined && this.#step('change', what, row, { role })) {
        await updateRole(this.#sql, owner.id, row.id, role as CompanyRole);
      }
    }
  }

  /** @param leaving as for `#users` */
  async #groups(all: readonly WantedGroup[], owner: CompanyRow | null, at: string, leaving = false): Promise<void> {
    if (all.length === 0) return;
    if (!leaving) refuseTwice(this.#mistake, all, ({ name }) => name, at);
    const names = all.map(({ name }) => name);
    const rows = await groupsNamed(this.#sql, names);
    const company_id = owner?.id ?? null;
    for (const [n, { absent = false, name, role }] of all.entries()) {
      if (absent !== leaving) continue;
      this.#at = `${at}/${n}`;
      const what = `group ${name}${of(owner)}`;
      const row = rows.find((each) => each.name === name);
      const isElsewhere = row !== undefined && row.company_id !== company_id;
      if (isElsewhere && !absent) {
        this.#mistake(`${at}/${n}/name`, 'is a group that gives a role elsewhere: remove it there first');
      } else if (absent) {
        if (row === undefined || isElsewhere) continue;
        await deleteGroup(this.#sql, row.id);
        this.#step('remove', what, {}, {});
      } else if (row === undefined) {
        if (!this.#has({ role }, ['role'], `${at}/${n}`)) continue;
        await insertGroup(this.#sql, { name, company_id, role: role as Role });
        this.#step('create', what, {}, { role });
      } else if (role !== undefined && this.#step('change', what, row, { role })) {
        await updateGroup(this.#sql, row.id, role as CompanyRole);
      }
    }
  }

  async #costCenters(all: readonly WantedCostCenter[], owner: CompanyRow, at: string): Promise<void> {
    if (all.length === 0) return;
    refuseTwice(
      this.#mistake,
      all,
      ({ name }) => name,
      at,
      ({ name }) => costCenterName(name),
    );
    for (const { n, done, name, now, wanted, run } of await costCenterSteps(this.#sql, owner.id, all)) {
      this.#at = `${at}/${n}`;
      if (done === 'create' && !this.#has(wanted, ['monthly_budget_eur'], this.#at)) continue;
      const differs = this.#step(done, `budget of cost centre ${name}${of(owner)}`, now, wanted);
      if (differs || done === 'remove') await run();
    }
  }

  /** Notes a step. @param more changes in words @returns whether a member differs */
  #step(done: Step['done'], what: string, now: object, wanted: object, more: readonly string[] = []): boolean {
    const differing = differences(now, wanted);
    if (done === 'change' && differing.length + more.length === 0) return false;
    const changes = differing.map((each) => (done === 'change' ? inWords(each) : `${each.member}: ${shown(each.to)}`));
    this.steps.push({ done, what, changes: [...changes, ...more] });
    return differing.length > 0;
  }

  /** The file, which asks for an operation. @param at the entry */
  #callerAt(at: string): KeyMaker {
    return { actor: ACTOR, services: this.#options, ...noting(this.#mistake, at) };
  }

  #has(settings: object, members: readonly string[], at: string): boolean {
    const missing = members.filter((member) => (settings as Record<string, unknown>)[member] === undefined);
    if (missing.length > 0) this.#mistake(at, `does not exist yet, and needs ${missing.join(', ')}`);
    return missing.length === 0;
  }

  /** @param read throws an error that says what the secret must be, without it @returns null: it is a mistake */
  #secret(reference: SecretReference, at: string, read: Read<string>): string | null {
    try {
      return read(readSecret(reference, this.#options.env));
    } catch (error) {
      this.#mistake(at, (error as Error).message);
      return null;
    }
  }
}

const of = (owner: CompanyRow | null): string => (owner === null ? '' : ` of ${owner.name}`);
