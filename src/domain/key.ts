import { hash, randomBytes } from 'node:crypto';
import type { Limits } from './limits.ts';
import type { Femto } from './pricing/money.ts';

/** Scopes a key may carry (spec section 5, rule 3), one per endpoint that needs one. */
export const SCOPES = ['chat', 'embeddings', 'assistants', 'rerank'] as const;
export type Scope = (typeof SCOPES)[number];
/** Those of a new key for which nobody named any. */
export const USUAL_SCOPES: readonly Scope[] = ['chat', 'embeddings', 'assistants'];

/** The states of a key, as lists and answers tell them. */
export const KEY_STATES = ['active', 'paused', 'expired', 'revoked'] as const;
type KeyState = (typeof KEY_STATES)[number];

/** Whether a key works no more, unless somebody gives it a later end. */
export function isOver(state: KeyState): state is 'expired' | 'revoked' {
  return state === 'expired' || state === 'revoked';
}

/** Where the calls of a key name the people behind it: nowhere, in headers, or in headers and else in the body. */
export const END_USERS = ['off', 'header', 'body'] as const;
export type EndUsers = (typeof END_USERS)[number];

/** A person behind a key, as gateways know one: their name is not kept here. */
export interface EndUser {
  readonly id: string;
  /** Femto-EUR a month, in place of what a key lets each of its end users cost; null: that. */
  readonly budget: Femto | null;
}

/** A set of scopes as bits, so that a check is one AND. */
export type ScopeSet = number;

export const SCOPE_BIT: Readonly<Record<Scope, ScopeSet>> = {
  chat: 1,
  embeddings: 2,
  assistants: 4,
  rerank: 8,
};

/** The bits of named scopes; unknown names grant nothing. */
export function scopeSet(names: readonly string[]): ScopeSet {
  let set = 0;
  for (const scope of SCOPES) if (names.includes(scope)) set |= SCOPE_BIT[scope];
  return set;
}

/**
 * Company API keys (spec section 2.7): a prefix, then 32 characters of the RFC 4648
 * base32 alphabet in lower case, 160 bits of entropy. Only its SHA-256 digest is stored.
 */

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';

/** The most seconds that a key works beside the one that takes its place. */
export const MOST_OVERLAP = 30 * 86_400;

/** Who pays for a call: a key as the ledger sees it. */
export interface Payer {
  readonly id: string;
  /** The first of the keys that were made in each other's place, whose budgets are one; undefined: the key itself. */
  readonly line?: string;
  readonly companyId: string;
  readonly restriction?:
    | (Pick<Restriction, 'budget'> & Partial<Pick<Restriction, 'endUserBudget'>>)
    | null;
}

/** When a revoked key ended, as the gateway sees it: it is known, so that its attempts have a name in the trail. */
export const REVOKED = Number.NEGATIVE_INFINITY;

/** The end of a paused key, as the gateway sees it: whoever looks at the end of a key finds the pause, and nobody else pays for it. */
export const PAUSED = -Number.MAX_VALUE;

/** Why a key is refused with 403. */
export interface Pause {
  /** The error, and the setting behind it. A pause of the company is told first. */
  readonly error: 'account_paused' | 'key_paused';
  readonly setting: 'company.paused_at' | 'key.paused_at';
  /** When the key expires, as `ApiKey.expiresAt`: an expired key is refused with 401 all the same. */
  readonly expiresAt: number;
}

/** A key as the gateway sees it. */
export interface ApiKey extends Payer {
  readonly scopeBits: ScopeSet;
  /** Milliseconds since the epoch; Infinity when the key does not expire, REVOKED when it was revoked, PAUSED with `pause`. */
  readonly expiresAt: number;
  /** null: neither it nor its company is paused. */
  readonly pause: Pause | null;
  /** null: none besides its company's. */
  readonly limits: Limits | null;
  /** null: it may do all that its scopes and its company allow. */
  readonly restriction: Restriction | null;
  /** Where its calls name the people behind it. */
  readonly endUsers: EndUsers;
}

/** What a key may do less than its company (contract section 5). null: nothing less. */
export interface Restriction {
  /** The only slugs it lists and calls. */
  readonly models: ReadonlySet<string> | null;
  /** Femto-EUR a month. */
  readonly budget: Femto | null;
  /** Femto-EUR a day. */
  readonly dailyBudget: Femto | null;
  /** The most that each of its end users may cost, femto-EUR a month. */
  readonly endUserBudget: Femto | null;
  /** The networks it may be used from. */
  readonly networks: Networks | null;
}

/** Whether a client's address is in a set. @param address null: it has none, and is in no set */
export function isWithin(networks: Networks, address: string | null): boolean {
  return address !== null && networks.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
}

/** A set of addresses. An IPv4-mapped IPv6 address is the IPv4 address. Text that is no address is not in it. */
interface Networks {
  check(address: string, family?: 'ipv4' | 'ipv6'): boolean;
}

/** A new key in plaintext, to be shown once. */
export function mintKey(prefix: string): string {
  let text = prefix;
  // 256 is a multiple of 32, so the low five bits of a random byte are unbiased
  for (const byte of randomBytes(32)) text += BASE32[byte & 31];
  return text;
}

/**
 * The parts of a text that may be keys: what follows the prefix in the form of a key, words that have another
 * prefix or look like keys of LiteLLM, which may have come here, and a text that is one word, since other programs may
 * create keys of another form. Each once.
 * @param prefix what keys begin with (KEY_PREFIX)
 */
export function possibleKeysIn(text: string, prefix: string): string[] {
  const found = new Set<string>();
  // the lookahead also finds keys that begin within one another
  for (const [, key] of text.matchAll(new RegExp(`(?=(${prefix}[a-z2-7]{32}))`, 'g')))
    found.add(key as string);
  for (const [key] of text.matchAll(
    /(?<![\w-])(?:[\w-]{1,16}[a-z2-7]{32}|sk-[\w-]{16,197})(?![\w-])/g,
  ))
    found.add(key);
  const whole = text.trim();
  if (/^\S{1,200}$/.test(whole)) found.add(whole);
  return [...found];
}

/** SHA-256 of a whole key in hex, as caches and change notifications have it. About 0.7 µs. */
export function digestOf(key: string): string {
  return hash('sha256', key, 'hex');
}

/** SHA-256 of a key or another secret in bytes, as the database has it. */
export function digestBytes(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}
