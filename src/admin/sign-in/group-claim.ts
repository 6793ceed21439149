import type { ToldGroups } from '../../operations/group.ts';

/** The groups of a person in the claims of the identity provider. */

/** UTF-16 units of the longest name that a group may have here, which has 200 characters. */
const MOST_UNITS = 400;
const OVERAGE =
  'the provider leaves the groups out because there are too many: let it tell only the groups that are assigned to this application, or app roles (OIDC_GROUPS_CLAIM=roles)';

/**
 * Whether claims say something about groups.
 * @param claim its name, or a path with dots, such as "realm_access.roles"
 */
export function tellsGroups(claims: object, claim: string): boolean {
  return memberAt(claims, claim) !== undefined || isOverage(claims, claim);
}

/**
 * Reads the groups from claims: a list of texts, or one text. What is no text, or no name that a group could have here,
 * is no group. A claim that is missing means that there are none: providers leave out an empty one.
 * @param claim its name, or a path with dots
 */
export function readGroups(claims: object, claim: string): ToldGroups {
  if (isOverage(claims, claim)) return { names: null, lack: OVERAGE };
  const value = memberAt(claims, claim) ?? [];
  if (typeof value !== 'string' && !Array.isArray(value)) {
    return { names: null, lack: `the claim ${claim} is neither a list nor a text` };
  }
  const names = [...new Set([value].flat())].filter(isName);
  const lack = value.length === 0 ? `the provider tells no groups in the claim ${claim}` : '';
  return { names, lack };
}

function isName(value: unknown): value is string {
  return (
    typeof value === 'string' && value !== '' && value.length <= MOST_UNITS && isStorable(value)
  );
}

/** Whether the database can hold a text as it is. */
function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/** The member of this name; where there is none, the one that a path with dots leads to. null counts as missing. */
function memberAt(claims: object, path: string): unknown {
  const own = (of: unknown, name: string): unknown =>
    typeof of === 'object' && of !== null && Object.hasOwn(of, name)
      ? of[name as keyof typeof of]
      : undefined;
  const found = own(claims, path) ?? path.split('.').reduce<unknown>(own, claims);
  return found ?? undefined;
}

/** Entra names where the groups can be fetched in place of the claim, or says only that there are some. */
function isOverage(claims: object, claim: string): boolean {
  return (
    memberAt(claims, claim) === undefined &&
    (memberAt(claims, `_claim_names.${claim}`) !== undefined ||
      (claim === 'groups' && memberAt(claims, 'hasgroups') === true))
  );
}
