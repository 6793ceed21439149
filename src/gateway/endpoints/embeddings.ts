import { boundPrompt } from '../../domain/budget.ts';
import { REFERENCE_ERRORS } from '../../domain/errors.ts';
import { admitTokenIds } from '../../domain/gate.ts';
import { isTextAlone } from '../../domain/members/text-alone.ts';
import { EMBEDDING_ANSWER } from '../../domain/request/answer-members.ts';
import { areTokenIds, checkEmbedding } from '../../domain/request/request.ts';
import type { AnswerScan } from '../../json/answer.ts';
import { CLOSE_BRACKET, COLON, OPEN_BRACKET, QUOTE, skipSpace } from '../../json/bytes.ts';
import { type AnswerBytes, type Edit, edited, splice } from '../../json/splice.ts';
import { VectorEncoder } from '../../json/vectors.ts';
import type { Turns } from '../../runtime/turns.ts';
import { JsonRelay, type Rendered } from '../answer/json-relay.ts';
import { modelEdit } from '../request/model-names.ts';
import type { Call, Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { validateBody } from './validate.ts';

/** POST /embeddings (spec section 4.3). */
export const embeddings: Endpoint = {
  name: 'embeddings',
  scope: 'embeddings',
  kind: 'embedding',
  upstreamPath: '/embeddings',
  errors: REFERENCE_ERRORS,
  takesApiKeyHeader: false,
  read(services, body): Call {
    const valid = validateBody(body, RULES, services.steering);
    const { input } = valid.request;
    const { name, removal } = costCenterOf(valid, services.settings.costCenterMember);
    const { encoding_format: format } = valid.request;
    const base64 = format === 'base64';
    return {
      slug: valid.request.model,
      slugParam: 'model',
      members: valid.members,
      costCenter: name,
      ...(areTokenIds(input) ? { check: (model) => admitTokenIds(model, 'input') } : {}),
      limit: 0,
      isTextAlone: () => isTextAlone(valid.request),
      bound: (model) => boundPrompt(body.length, model.prices, isTextAlone(valid.request)),
      // the format has no metadata: providers refuse it
      forward: (upstream) => body.edited([modelEdit(valid.members, upstream), ...removal]),
      answer: (reply, meter) => {
        const encoder = base64 ? new VectorEncoder() : null;
        const render = (answer: Buffer, scan: AnswerScan): Rendered =>
          encoder === null
            ? renderFloats(answer, scan, services.bodyMemory.turns, format === 'float')
            : renderTexts(answer, scan, encoder);
        return new JsonRelay(reply, meter, render, EMBEDDING_ANSWER, encoder);
      },
    };
  },
};

const RULES = { check: checkEmbedding, governed: ['model', 'input', 'encoding_format'] };

/** How much of an answer is converted before others have their turn. */
const TURN_BYTES = 262_144;
const NAME = Buffer.from('"embedding"');

const DATA = /"data"\s*:\s*\[/;
const START_BYTES = 65_536;

/**
 * Gives the client base64, which it asked for: vectors of floats were encoded as they came. Some upstreams ignore
 * `encoding_format`, and official SDKs decode what they asked for without checking.
 */
function renderTexts(body: Buffer, scan: AnswerScan, encoder: VectorEncoder): AnswerBytes | null {
  const isAnswer = !encoder.isBroken && (encoder.hasVectors || DATA.test(startOf(body)));
  return isAnswer ? edited(body, scan.edits) : null;
}

/**
 * Gives the client floats. Texts that are no floats, such as the int8 vectors of Perplexity, stay as they are.
 * @param isAsked whether it asked for them by name: then such an answer is broken
 */
function renderFloats(body: Buffer, scan: AnswerScan, turns: Turns, isAsked: boolean): Rendered {
  // a base64 vector is a string, a float vector an array; the first one shows which
  const start = startOf(body);
  const first = /"embedding"\s*:\s*(["[])/.exec(start);
  if (first?.[1] === '"') return decoded(splice(body, scan.edits), turns, isAsked);
  return first !== null || DATA.test(start) ? edited(body, scan.edits) : null;
}

function startOf(body: Buffer): string {
  return body.toString('latin1', 0, START_BYTES);
}

/** Converts one vector after the other: 40 MB at once would keep all requests waiting for a third of a second. */
async function decoded(
  answer: Buffer,
  turns: Turns,
  isAsked: boolean,
): Promise<AnswerBytes | null> {
  const edits: Edit[] = [];
  let turnEnds = TURN_BYTES;
  for (let start = vectorAfter(answer, 0), end = 0; start >= 0; start = vectorAfter(answer, end)) {
    const isText = answer[start] === QUOTE;
    if (!isText && answer[start] !== OPEN_BRACKET) return null;
    end = answer.indexOf(isText ? QUOTE : CLOSE_BRACKET, start + 1) + 1;
    if (isText) {
      const vector = floatsOf(JSON.parse(answer.toString('latin1', start, end)));
      if (vector === null) return isAsked ? null : answer;
      edits.push({ start, end, bytes: Buffer.from(JSON.stringify(vector)) });
    }
    if (end < turnEnds) continue;
    await new Promise<void>((resolve) => turns.enter(resolve));
    turnEnds = end + TURN_BYTES;
  }
  return edited(answer, edits);
}

/** Where the next vector begins; -1: there is none. The name with its quotes stands in no string, whose quotes are escaped. */
function vectorAfter(answer: Buffer, from: number): number {
  for (let at = answer.indexOf(NAME, from); at >= 0; at = answer.indexOf(NAME, at)) {
    at = skipSpace(answer, at + NAME.length, answer.length);
    if (answer[at] === COLON) return skipSpace(answer, at + 1, answer.length);
  }
  return -1;
}

/** What numbers of vectors are between; other bytes read as floats are nearly all outside. 0 is a number too. */
const LEAST = 1e-12;
const MOST = 1e6;

/** The floats of base64 of little-endian 32-bit floats; null: it is something else. */
function floatsOf(text: string): number[] | null {
  const bytes = Buffer.from(text, 'base64');
  const floats = Array.from({ length: bytes.length >> 2 }, (_, i) => bytes.readFloatLE(i * 4));
  const areFloats = floats.every((each) => {
    const size = Math.abs(each);
    return size === 0 || (size > LEAST && size < MOST);
  });
  return areFloats && bytes.length % 4 === 0 ? floats : null;
}
