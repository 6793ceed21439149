import type { UnreadUsage } from '../../domain/reports/overview.ts';
import type { Admission } from '../../domain/usage.ts';
import type { ToldUsage } from '../../json/usage.ts';
import type { Logger } from '../../log.ts';

const MOST_MODELS = 200;
const MOST_MEMBERS = 20;
/** Names of members that may be told to operators: they are the upstream's text. */
const NAME = /^[\w.-]{1,80}$/;

/** What a tier that has no rate is called among members. */
const UNRATED_TIER = 'service_tier';

/** What of usages could not be taken as it was told, since the start: logged once a model. */
export class UsageNotes {
  readonly #log: Logger;
  /** Members that were not read, and tiers without a rate, by slug. */
  readonly #unread = new Map<string, Set<string>>();
  /** Slugs whose totals had tokens besides the counts, and those whose totals were less. */
  readonly #more = new Set<string>();
  readonly #less = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Members with tokens that nobody read, and tiers without a rate, by slug, at most 200: operators' overview names them. */
  get unread(): UnreadUsage[] {
    return [...this.#unread].map(([slug, members]) => ({ slug, members: [...members].sort() }));
  }

  note({ requestId: request_id, model: { slug: model } }: Admission, usage: ToldUsage): void {
    const { rest = 0, unread = [] } = usage;
    const known = rest > 0 ? this.#more : this.#less;
    if (rest !== 0 && !known.has(model) && known.size < MOST_MODELS) {
      known.add(model);
      this.#log.warn({ request_id, model, tokens: Math.abs(rest) }, rest > 0 ? MORE : LESS);
    }
    const found = this.#found(
      model,
      unread.filter((name) => NAME.test(name)),
    );
    if (found.length > 0) this.#log.warn({ request_id, model, members: found }, UNREAD);
  }

  /** Notes a tier that served a call and has no rate. */
  noteTier({ requestId: request_id, model: { slug: model } }: Admission, tier: string): void {
    const name = NAME.test(tier) ? `${UNRATED_TIER}=${tier}` : UNRATED_TIER;
    if (this.#found(model, [name]).length > 0)
      this.#log.warn({ request_id, model, tier: name }, UNRATED);
  }

  /** Keeps names of a model. @returns those that are new */
  #found(model: string, names: readonly string[]): string[] {
    const known = this.#unread.get(model) ?? new Set();
    if (!this.#unread.has(model) && this.#unread.size >= MOST_MODELS) return [];
    const found = names.filter((name) => !known.has(name)).slice(0, MOST_MEMBERS - known.size);
    if (found.length === 0) return [];
    for (const name of found) known.add(name);
    this.#unread.set(model, known);
    return found;
  }
}

const MORE =
  'the total of a usage has tokens that nothing explains: they are booked as completion, here and in later calls of the model';
const LESS =
  'the total of a usage is less than its counts: these are booked, and rows of such calls say estimated';
const UNRATED =
  'a call was served by a tier for which the model has no rate: it is booked at the base price, here and in later calls';
const UNREAD = 'a usage has members with tokens that are not read: what they count may be missing';
