import { type ApiKey, REVOKED } from '../../domain/key.ts';
import type { Directory, MaybeAsync } from '../../domain/ports.ts';
import type { RequestHead } from '../../http/request-head.ts';

/** Stands for all whose key is missing, not valid, revoked or not looked up: together they have the share of one company. */
export const UNKNOWN = '';
/** The most keys that are looked up at once; requests with further keys count as UNKNOWN. */
const MAX_LOOKED_UP = 500;

/** The id of the company that a request is from, or UNKNOWN. Looks nothing up: the digest of its key costs 2 µs. */
export function companyInMemory(directory: Directory, head: RequestHead): string {
  const digest = head.bearerDigest ?? head.apiKeyDigest;
  return digest === null ? UNKNOWN : companyOf(directory.keyInMemory(digest));
}

/** A revoked key may be in the hands of strangers, who must not use up the share of its company. */
function companyOf(key: ApiKey | null): string {
  return key === null || key.expiresAt === REVOKED ? UNKNOWN : key.companyId;
}

/** Finds the company that a request is from before anything else is done with it. Used in an overload only. */
export class RequestCompanies {
  readonly #directory: Directory;
  /** By the digest of the key that is looked up. */
  readonly #lookedUp = new Map<string, Promise<string>>();

  constructor(directory: Directory) {
    this.#directory = directory;
  }

  /**
   * The id of the company, or UNKNOWN. Never rejects. A request waits while its key is looked up: counted as UNKNOWN,
   * the first requests of a company would be refused together with those of invalid keys.
   */
  of(head: RequestHead): MaybeAsync<string> {
    const digest = head.bearerDigest ?? head.apiKeyDigest;
    if (digest === null) return UNKNOWN;
    const known = this.#directory.keyInMemory(digest);
    if (known !== null) return companyOf(known);
    return (
      this.#lookedUp.get(digest) ??
      (this.#lookedUp.size < MAX_LOOKED_UP ? this.#lookUp(digest) : UNKNOWN)
    );
  }

  #lookUp(digest: string): MaybeAsync<string> {
    const found = this.#directory.key(digest);
    if (!(found instanceof Promise)) return companyOf(found);
    const company = found
      .then(companyOf, () => UNKNOWN)
      .finally(() => this.#lookedUp.delete(digest));
    this.#lookedUp.set(digest, company);
    return company;
  }
}
