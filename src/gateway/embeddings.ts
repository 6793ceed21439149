import { boundEmbedding } from '../domain/budget.ts';
import { REFERENCE_ERRORS } from '../domain/errors.ts';
import { admitTokenIds } from '../domain/gate.ts';
import { checkEmbedding } from '../domain/request.ts';
import type { AnswerScan } from '../json/answer.ts';
import { splice } from '../json/splice.ts';
import type { Call, Operation } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { JsonRelay } from './json-relay.ts';
import { modelEdit } from './model-names.ts';
import { validateBody } from './validate.ts';

/** POST /embeddings (spec section 4.3). */
export const embeddings: Operation = {
  endpoint: 'embeddings',
  scope: 'embeddings',
  kind: 'embedding',
  upstreamPath: '/embeddings',
  errors: REFERENCE_ERRORS,
  takesApiKeyHeader: false,
  read(services, body): Call {
    const valid = validateBody(body, RULES, services.steering);
    const { input } = valid.request;
    const { name, removal } = costCenterOf(valid, services.settings.costCenterMember);
    const hasTokenIds = typeof input !== 'string' && typeof input[0] !== 'string'; // the schema lets no others beside them
    const base64 = valid.request.encoding_format === 'base64';
    return {
      slug: valid.request.model,
      slugParam: 'model',
      costCenter: name,
      ...(hasTokenIds ? { check: admitTokenIds } : {}),
      bound: (model) => boundEmbedding(body.length, model.prices),
      // the format has no metadata: providers refuse it
      forward: (model) => body.edited([modelEdit(valid.members, model), ...removal]),
      answer: (reply, meter) => new JsonRelay(reply, meter, (answer, scan) => renderEmbeddings(answer, scan, base64)),
    };
  },
};

const RULES = { check: checkEmbedding, governed: ['model', 'input', 'encoding_format'] };

/**
 * Gives the client the encoding it asked for. Some upstreams ignore `encoding_format`, and official
 * SDKs decode what they asked for without checking.
 */
function renderEmbeddings(body: Buffer, scan: AnswerScan, base64: boolean): Buffer | null {
  const rendered = splice(body, scan.edits);
  // a base64 vector is a string, a float vector an array; the first one shows which
  const start = rendered.toString('latin1', 0, 65_536);
  const first = /"embedding"\s*:\s*(["[])/.exec(start);
  if (first === null) return /"data"\s*:\s*\[/.test(start) ? rendered : null;
  if ((first[1] === '"') === base64) return rendered;
  const answer = JSON.parse(rendered.toString()) as { data: { embedding: string | number[] }[] };
  if (!Array.isArray(answer.data)) return null;
  for (const entry of answer.data) entry.embedding = convert(entry.embedding);
  return Buffer.from(JSON.stringify(answer));
}

/** Floats to base64 of little-endian 32-bit floats, or back. */
function convert(embedding: string | number[]): string | number[] {
  if (typeof embedding === 'string') {
    const bytes = Buffer.from(embedding, 'base64');
    return Array.from({ length: bytes.length >> 2 }, (_, i) => bytes.readFloatLE(i * 4));
  }
  const bytes = Buffer.alloc(embedding.length * 4);
  embedding.forEach((value, i) => {
    bytes.writeFloatLE(value, i * 4);
  });
  return bytes.toString('base64');
}
