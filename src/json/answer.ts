import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipSpace,
} from './bytes.ts';
import type { Hidden } from './hidden.ts';
import type { MemberTable } from './member-table.ts';
import { ObjectWalk, REMOVE, REPLACE } from './object-walk.ts';
import { usageAt } from './plain-usage.ts';
import type { Edit } from './splice.ts';
import { toldTier } from './tier.ts';
import { addUsage, readUsageMembers, type ToldUsage, type UsageReader } from './usage.ts';
import type { Members } from './usage-counts.ts';

const NOTHING = Buffer.alloc(0);
const NO_MEMBERS: Members = {};
const MODEL = Buffer.from('"model":');
const BEFORE_NEXT = Buffer.from(',');

/** What an answer tells of what its call costs. */
export interface ToldOfCall {
  /** null if it is missing or cannot be read. */
  readonly usage: ToldUsage | null;
  /** The service tier that served it; undefined: it says none. */
  readonly tier: string | undefined;
}

/** What `scanAnswer` finds in an answer of the upstream. */
export interface AnswerScan extends AnswerText, ToldOfCall {
  /** Sorted: `model` becomes the slug, leaking members are removed. */
  readonly edits: readonly Edit[];
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
    const bytes = Buffer.concat([MODEL, slug, walk.kept > 0 ? BEFORE_NEXT : NOTHING]);
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

/** Finds what the beginning of an answer tells, and its generated text, also in a string that is cut there. */
export function scanBeginning(body: Buffer, table: MemberTable): AnswerText & ToldOfCall {
  const walk = new ObjectWalk(table, null);
  walk.walk(body, skipSpace(body, 0, body.length), body.length, true);
  const { generated: generatedBytes, textStart, textEnd } = walk;
  return { generatedBytes, textStart, textEnd, ...toldIn(body, walk, table) };
}

/** Finds what the last members of an answer tell, as many as are whole in its end. */
export function scanEnd(end: Buffer, table: MemberTable): ToldOfCall {
  const walk = new ObjectWalk(table, null);
  const members = Buffer.from(end.subarray(lastMembers(end)));
  members[0] = OPEN_BRACE; // in place of the comma before them
  const last = walk.walk(members, 0, members.length, true);
  if (last < 0 || skipSpace(members, last, members.length) < members.length) walk.clear();
  return toldIn(members, walk, table);
}

/**
 * The comma before the first member of the outermost object that is whole in its end, or the object's own bracket; the
 * end's length where there is none. Read backwards, each quote that is not escaped begins or ends a string.
 */
function lastMembers(end: Buffer): number {
  let start = end.length;
  let depth = 0;
  let isInString = false;
  for (let i = end.length - 1; i >= 0; i--) {
    const c = end[i];
    if (c === QUOTE) {
      let slashes = i;
      while (end[slashes - 1] === BACKSLASH) slashes--;
      if ((i - slashes) % 2 === 0) isInString = !isInString;
    } else if (isInString) continue;
    else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) depth++;
    else if (c === OPEN_BRACE || c === OPEN_BRACKET) depth--;
    else if (c === COMMA && depth === 1) start = i;
    if (depth === 0 && c === OPEN_BRACE) return i;
  }
  return start;
}

/** A usage is not taken from part of an answer that repeats what the caller wrote: the call is estimated. */
function toldIn(body: Buffer, walk: ObjectWalk, table: MemberTable): ToldOfCall {
  return {
    usage: table.counts ? usageOf(body, walk, table.usage) : null,
    tier: toldTier(walk, body),
  };
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
