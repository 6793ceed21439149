import { COLON, OPEN_BRACE, skipSpace } from './bytes.ts';
import { containerEnd } from './container-end.ts';
import type { Hidden } from './hidden.ts';
import type { MemberTable } from './member-table.ts';
import { ObjectWalk, REMOVE, REPLACE } from './object-walk.ts';
import { usageAt } from './plain-usage.ts';
import type { Edit } from './splice.ts';
import { toldTier } from './tier.ts';
import {
  addUsage,
  readUsage,
  readUsageMembers,
  type ToldUsage,
  type UsageReader,
} from './usage.ts';
import type { Members } from './usage-counts.ts';

const NOTHING = Buffer.alloc(0);
const NO_MEMBERS: Members = {};
const USAGE_NAME = Buffer.from('"usage"');
/** The longest usage that is looked for in a part of an answer. */
const MOST_USAGE = 8192;
/** The most bytes of a part that are read for it, those of usages within another one each time. */
const MOST_READ = 8 * MOST_USAGE;
/** What a usage counts at least, however short. */
const LEAST_READ = 256;
const MODEL = Buffer.from('"model":');
const COMMA = Buffer.from(',');

/** What `scanAnswer` finds in an answer of the upstream. */
export interface AnswerScan extends AnswerText {
  /** Sorted: `model` becomes the slug, leaking members are removed. */
  readonly edits: readonly Edit[];
  /** null if it is missing or cannot be read. */
  readonly usage: ToldUsage | null;
  /** The service tier that served it; undefined: it says none. */
  readonly tier: string | undefined;
  /** There is an `error` that says something. */
  readonly error: boolean;
  /** `choices`, or what takes its place in another dialect, is an array. */
  readonly hasResult: boolean;
}

/**
 * Reads an answer that is not streamed (spec sections 2.2, 2.4). `splice` makes the edits.
 * @param slug a JSON string with its quotes: replaces the upstream's model name, or is inserted if there is none
 * @param table the leaking members and those of generated text
 * @param hidden what no string may hold, generated text apart
 * @returns null if the body is not exactly one JSON object: a broken answer must not look whole
 */
export function scanAnswer(
  body: Buffer,
  slug: Buffer,
  table: MemberTable,
  hidden: Hidden | null = null,
): AnswerScan | null {
  const start = skipSpace(body, 0, body.length);
  if (body[start] !== OPEN_BRACE) return null;
  const walk = new ObjectWalk(table, hidden);
  const end = walk.walk(body, start, body.length, true);
  if (end < 0 || skipSpace(body, end, body.length) !== body.length) return null;
  const edits: Edit[] = [];
  if (!walk.hasModel && table.addsModel) {
    const bytes = Buffer.concat([MODEL, slug, walk.kept > 0 ? COMMA : NOTHING]);
    edits.push({ start: start + 1, end: start + 1, bytes });
  }
  for (let k = 0; k < walk.editCount; k += 3) {
    const kind = walk.edits[k + 2];
    const bytes = kind === REMOVE ? NOTHING : kind === REPLACE ? slug : slug.subarray(1, -1);
    edits.push({ start: walk.edits[k] as number, end: walk.edits[k + 1] as number, bytes });
  }
  return {
    edits,
    usage: usageOf(body, walk, table.usage),
    tier: toldTier(walk, body),
    error: walk.errorStart >= 0,
    hasResult: walk.hasResult,
    generatedBytes: walk.generated,
    textStart: walk.textStart,
    textEnd: walk.textEnd,
  };
}

/** What was seen of the generated text in the beginning of an answer. */
export interface AnswerText {
  /** Bytes, as written in JSON. */
  readonly generatedBytes: number;
  /** The longest text, without its quotes. */
  readonly textStart: number;
  readonly textEnd: number;
}

/** Finds the generated text in the beginning of an answer, also in a string that is cut there. */
export function scanBeginning(body: Buffer, table: MemberTable): AnswerText {
  const walk = new ObjectWalk(table, null);
  walk.walk(body, skipSpace(body, 0, body.length), body.length, true);
  return { generatedBytes: walk.generated, textStart: walk.textStart, textEnd: walk.textEnd };
}

function usageOf(body: Buffer, walk: ObjectWalk, reader: UsageReader): ToldUsage | null {
  const { usageStart, usageEnd, innerUsageStart, innerUsageEnd } = walk;
  const outer = usageStart < 0 ? null : usageAt(body, usageStart, usageEnd);
  const inner = innerUsageStart < 0 ? null : usageAt(body, innerUsageStart, innerUsageEnd);
  if (outer === null || inner === null)
    return readUsageMembers(outer ?? inner ?? NO_MEMBERS, reader);
  const all = Object.assign(Object.create(null), inner);
  addUsage(all, outer);
  return readUsageMembers(all, reader);
}

/**
 * Finds the usage in a part of an answer, which need not begin or end where JSON does: the last one that is whole. The
 * name with its quotes stands in no string, whose quotes are escaped.
 * @returns null if there is none, or the answer repeats what the caller wrote, where it could be the caller's
 */
export function findUsage(part: Buffer, table: MemberTable): ToldUsage | null {
  if (!table.counts) return null;
  let left = MOST_READ;
  for (
    let at = part.lastIndexOf(USAGE_NAME);
    at >= 0 && left > 0;
    at = at === 0 ? -1 : part.lastIndexOf(USAGE_NAME, at - 1)
  ) {
    const colon = skipSpace(part, at + USAGE_NAME.length, part.length);
    const from = part[colon] === COLON ? skipSpace(part, colon + 1, part.length) : part.length;
    if (part[from] !== OPEN_BRACE) continue;
    const most = Math.min(part.length, from + MOST_USAGE);
    const end = containerEnd(part, from, most, true);
    left -= Math.max(LEAST_READ, (end < 0 ? most : end) - from);
    if (end < 0) continue;
    const usage = readUsage(part.toString('utf8', from, end), table.usage);
    if (usage !== null) return usage;
  }
  return null;
}
