import type { UnreadUsage } from '../../domain/reports/overview.ts';
import type { Admission } from '../../domain/usage.ts';
import type { ToldUsage } from '../../json/usage.ts';
import type { Logger } from '../../log.ts';

const MOST_MODELS = 200;
const MOST_MEMBERS = 20;
/** Names of members that may be told to operators: they are the upstream's text. */
const NAME = /^[\w.-]{1,80}$/;

/** What of usages could not be taken as it was told, since the start: logged once a model. */
export class UsageNotes {
  readonly #log: Logger;
  /** Members that were not read, by slug. */
  readonly #unread = new Map<string, Set<string>>();
  /** Slugs whose totals had tokens besides the counts, and those whose totals were less. */
  readonly #more = new Set<string>();
  readonly #less = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Members with tokens that nobody read, by slug, at most 200: operators' overview names them. */
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
    const members = this.#unread.get(model) ?? new Set();
    if (!this.#unread.has(model) && this.#unread.size >= MOST_MODELS) return;
    const found = unread
      .filter((name) => NAME.test(name) && !members.has(name))
      .slice(0, MOST_MEMBERS - members.size);
    if (found.length === 0) return;
    for (const name of found) members.add(name);
    this.#unread.set(model, members);
    this.#log.warn({ request_id, model, members: found }, UNREAD);
  }
}

const MORE =
  'the total of a usage has tokens that nothing explains: they are booked as completion, here and in later calls of the model';
const LESS =
  'the total of a usage is less than its counts: these are booked, and rows of such calls say estimated';
const UNREAD = 'a usage has members with tokens that are not read: what they count may be missing';
