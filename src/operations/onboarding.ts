import { hash } from 'node:crypto';
import { Refused } from '../domain/refusal.ts';
import { eachPrice, modelPrices, PRICES } from '../domain/settings/model.ts';
import * as schema from '../domain/settings/schema.ts';
import { schemasOf } from '../domain/settings/setting.ts';
import { COMPANY_ROW, type CompanyRow, findCompany } from '../store/company/company.ts';
import { createOnce } from '../store/company/idempotent-form.ts';
import type { Claim, RevealedKey } from '../store/company/key-reveal.ts';
import type { Sql } from '../store/connection/pool.ts';
import { dismissFirstSteps } from '../store/usage/first-steps.ts';
import { findInvitation, type MadeInvitation } from '../store/users/invitation.ts';
import { type CompanySettings, createCompany } from './company.ts';
import { type Mistake, refuse } from './frame/refused.ts';
import * as resource from './frame/resources.ts';
import { type Operation, post } from './frame/row.ts';
import { createInvitation, made, withLink } from './invitation.ts';
import { createKey, type KeyMaker, type KeySettings } from './key.ts';
import { createOwnPrices, type OwnPrice } from './own-price.ts';

export interface Onboarding extends CompanySettings {
  /** Prices of its own for shared models. */
  readonly own_prices?: readonly OwnPrice[] | undefined;
  /** Who is invited as its owner; absent: nobody. The address may have capital letters. */
  readonly owner?: { readonly email: string } | undefined;
  /** Its first key; absent: none. */
  readonly key?: KeySettings | undefined;
}

/** What was made. The texts of invitation and key are known only now. */
export interface Onboarded {
  readonly company: CompanyRow;
  /** Null: none was asked for, or its link cannot be shown any more. */
  readonly invitation: MadeInvitation | null;
  /** Null: none was asked for. */
  readonly key: RevealedKey | null;
  /** The same form made it before. */
  readonly already: boolean;
}

/** The ids of company and key, the same in each repetition of a form, and the proof that its sender is the same. */
export interface Repeatable {
  readonly id: string;
  readonly keyId: string;
  readonly claim: Claim;
}

/**
 * Creates all of it or nothing, in a transaction of the caller.
 * @throws Refused conflict, which names each mistake with its member, such as `#/owner/email`
 */
export async function onboardCompany(
  sql: Sql,
  caller: KeyMaker,
  { own_prices = [], owner, key, ...settings }: Onboarding,
  form: Repeatable | null = null,
): Promise<Onboarded> {
  const mistakes: Mistake[] = [];
  const collector = (member = '') => ({
    ...caller,
    judge: (found: readonly Mistake[]) =>
      void mistakes.push(...found.map((each) => below(member, each))),
  });
  const company = await createCompany(sql, collector(), {
    ...settings,
    id: form?.id ?? settings.id,
  });
  mistakes.push(...(await createOwnPrices(sql, company.id, own_prices)));
  const invitation =
    owner &&
    (await part(mistakes, 'owner', () => invite(sql, caller, company.id, owner.email, form)));
  const minted =
    key && (await part(mistakes, 'key', () => mint(sql, collector('/key'), company.id, key, form)));
  refuse(mistakes);
  caller.judge(mistakes.filter(({ severity }) => severity === 'ask'));
  return { company, invitation: invitation ?? null, key: minted ?? null, already: false };
}

/**
 * As `onboardCompany`, once, however often the form is sent: a repetition gets what the first one made. It gets the
 * key's text as `makeKeyOnce` says, and the link of an invitation that is still open.
 */
export async function onboardOnce(
  sql: Sql,
  caller: KeyMaker,
  asked: Onboarding,
  form: Repeatable,
): Promise<Onboarded> {
  const created = await createOnce(sql, 'companies', form.id, () =>
    onboardCompany(sql, caller, asked, form),
  );
  if (created !== null) return created;
  const token = tokenOf(form);
  const invitation = await findInvitation(sql, token);
  return {
    company: await findCompany(sql, form.id),
    invitation: invitation === null ? null : { ...invitation, token },
    key: asked.key === undefined ? null : await mint(sql, caller, form.id, asked.key, form),
    already: true,
  };
}

function invite(
  sql: Sql,
  caller: KeyMaker,
  company_id: string,
  email: string,
  form: Repeatable | null,
) {
  const invitation = { company_id, email, role: 'owner' } as const;
  return createInvitation(
    sql,
    caller,
    form === null ? invitation : { ...invitation, token: tokenOf(form) },
  );
}

function mint(
  sql: Sql,
  caller: KeyMaker,
  company: string,
  settings: KeySettings,
  form: Repeatable | null,
): Promise<RevealedKey> {
  if (form === null) return createKey(sql, caller, company, settings);
  return createKey(sql, caller, company, { ...settings, id: form.keyId }, form.claim);
}

/** The random part of a link: that of the claim, so that only the session that sent the form first gets it again. */
function tokenOf({ id, claim: { secret, holder } }: Repeatable): string {
  return hash('sha256', JSON.stringify(['invitation', id, holder, secret]), 'base64url');
}

/** Conflicts of owner and key with the present data, by subject: the member of the body, and the text behind its name. */
const REFUSED: Readonly<Record<string, readonly [member: string, detail: string]>> = {
  user: ['email', 'has an account already: choose another address'],
  key: ['expires_at', 'must be later than now'],
};

/** A mistake of a part, as one of the whole. */
function below(member: string, mistake: Mistake): Mistake {
  return { ...mistake, pointer: `#${member}${mistake.pointer.slice(1)}` };
}

/** Makes a part of the whole; what a rule has against it is noted below its member. */
async function part<T>(
  mistakes: Mistake[],
  member: string,
  make: () => Promise<T>,
): Promise<T | null> {
  try {
    return await make();
  } catch (error) {
    const [name, detail] = (error instanceof Refused && REFUSED[error.noun ?? '']) || [];
    if (name === undefined || detail === undefined) throw error;
    mistakes.push({ pointer: `#/${member}/${name}`, detail });
    return null;
  }
}

/** Hides the list of first steps of the operators' first page, for all operators. */
export const putFirstStepsAway = (sql: Sql): Promise<void> => dismissFirstSteps(sql);

/** How a customer begins: a company with all it needs for its first call, in one transaction. */

const prices = modelPrices(schemasOf(PRICES));
const needed = modelPrices(eachPrice((_, { isNeeded }) => isNeeded));
const ownPrice = schema.object({ slug: schema.slug, ...prices }, [
  'slug',
  ...schema.namesOf(prices).filter((column) => needed[column]),
]);

export const onboardingOperations: readonly Operation[] = [
  post('onboardCompany', '/companies/onboard', {
    summary:
      'Onboard a customer: a company with its limits, models and own prices, the invitation of its owner, and a first key, all of it or nothing. No e-mail is sent: the program passes link and key on.',
    action: 'company.create',
    body: schema.object(
      {
        ...resource.newCompany,
        own_prices: {
          ...schema.listOf(ownPrice),
          description: 'of shared models, for this company alone',
        },
        owner: schema.object({ email: schema.email }),
        key: resource.newKey,
      },
      ['name'],
    ),
    answer: schema.object({
      ...COMPANY_ROW.properties,
      invitation: schema.orNull(made),
      key: schema.orNull(resource.mintedKey),
    }),
    status: 201,
    secret: ['invitation.link', 'key.key'],
    async run(sql, call) {
      const done = await onboardCompany(sql, call, call.body);
      const { company, invitation, key } = done;
      return { ...company, invitation: invitation && withLink(call.origin, invitation), key };
    },
  }),
];
