import { OPEN_BRACE, skipSpace } from './members.ts';
import { ObjectWalk, REPLACE } from './object-walk.ts';
import { type Edit, splice, spliceText } from './splice.ts';
import { readUsage, readUsageText, type TokenCounts } from './usage.ts';

/** What one pass over a whole JSON answer of the upstream tells. */
export interface AnswerScan {
  /** Sorted: `model` becomes the slug, members that name what stands behind go. */
  readonly edits: readonly Edit[];
  /** null when the upstream told none, or it cannot be read. */
  readonly usage: TokenCounts | null;
  /** A top-level `error` that is not null. */
  readonly error: boolean;
  /** It has an array of `choices`. */
  readonly choices: boolean;
  /** Some choice has a finish_reason. */
  readonly finished: boolean;
  /** Bytes of generated text, as written in JSON. */
  readonly generatedBytes: number;
  /** The longest piece of it, without its quotes. */
  readonly textStart: number;
  readonly textEnd: number;
}

/**
 * Reads an answer that is not streamed (spec sections 2.2, 2.4).
 * @param slug a JSON string, quotes included: takes the place of the upstream's model name; inserted where there is none
 * @returns null when the body is not one JSON object, to the letter: a broken answer is not handed on as whole
 */
export function scanAnswer(body: Buffer, slug: Buffer): AnswerScan | null {
  const start = skipSpace(body, 0, body.length);
  if (body[start] !== OPEN_BRACE) return null;
  const walk = new ObjectWalk();
  const end = walk.walk(body, start, body.length, true);
  if (end < 0 || skipSpace(body, end, body.length) !== body.length) return null;
  const edits: Edit[] = [];
  if (!walk.hasModel) {
    const bytes = Buffer.concat([MODEL, slug, walk.kept > 0 ? COMMA : NOTHING]);
    edits.push({ start: start + 1, end: start + 1, bytes });
  }
  for (let k = 0; k < walk.editCount; k += 3) {
    const bytes = walk.edits[k + 2] === REPLACE ? slug : NOTHING;
    edits.push({ start: walk.edits[k] as number, end: walk.edits[k + 1] as number, bytes });
  }
  return {
    edits,
    usage: usageOf(body, walk),
    error: walk.errorStart >= 0,
    choices: walk.hasChoices,
    finished: walk.finished,
    generatedBytes: walk.generated,
    textStart: walk.textStart,
    textEnd: walk.textEnd,
  };
}

/** The answer with its edits made: what the client gets. */
export function renderAnswer(body: Buffer, scan: AnswerScan): Buffer {
  return splice(body, scan.edits);
}

/** The same as latin1 text, a character for each byte. */
export function renderAnswerText(body: Buffer, scan: AnswerScan): string {
  return spliceText(body, scan.edits);
}

const NOTHING = Buffer.alloc(0);
const MODEL = Buffer.from('"model":');
const COMMA = Buffer.from(',');

function usageOf(body: Buffer, walk: ObjectWalk): TokenCounts | null {
  try {
    if (walk.usageStart >= 0) return readUsageText(body.utf8Slice(walk.usageStart, walk.usageEnd));
    if (walk.groqStart < 0) return null;
    return readUsage(JSON.parse(body.utf8Slice(walk.groqStart, walk.groqEnd)).usage);
  } catch {
    return null;
  }
}
