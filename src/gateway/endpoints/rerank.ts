import { boundPrompt, mostPaired, mostSearchUnits, type Repeated } from '../../domain/budget.ts';
import { RERANK_ERRORS, unsupportedParameter } from '../../domain/errors.ts';
import { isTextAlone, isTextDocument } from '../../domain/members/text-alone.ts';
import { RERANK_ANSWER } from '../../domain/request/answer-members.ts';
import { checkRerank } from '../../domain/request/request.ts';
import { type Member, memberNamed } from '../../json/members.ts';
import type { Edit } from '../../json/splice.ts';
import { JsonRelay, renderEdited } from '../answer/json-relay.ts';
import type { ValidBody } from '../request/body.ts';
import { modelEdit } from '../request/model-names.ts';
import type { Call, Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { validateBody } from './validate.ts';

/** POST /rerank (contract section 5). */
export const rerank: Endpoint = {
  name: 'rerank',
  scope: 'rerank',
  kind: 'rerank',
  upstreamPath: '/rerank',
  errors: RERANK_ERRORS,
  takesApiKeyHeader: false,
  read(services, body): Call {
    const valid = validateBody(body, RULES, services.steering);
    const { request, members } = valid;
    if (memberNamed(members, TEXTS) !== undefined) throw unsupportedParameter(TEXTS, IN_PLACE);
    const { name, removal } = costCenterOf(valid, services.settings.costCenterMember);
    const repeated = repeatedIn(valid);
    const all = allWhereMore(valid);
    return {
      slug: request.model,
      slugParam: 'model',
      members,
      costCenter: name,
      limit: 0,
      repeated,
      isTextAlone: () => isTextAlone(request),
      bound: (model) =>
        boundPrompt(
          mostPaired(body.length, repeated),
          model.prices,
          isTextAlone(request),
          mostSearchUnits(body.length, repeated),
        ),
      // the format has no metadata
      forward: (upstream) => body.edited([modelEdit(members, upstream), ...all, ...removal]),
      answer: (reply, meter) => new JsonRelay(reply, meter, renderEdited, RERANK_ANSWER),
    };
  },
};

/** `return_documents` shows the caller's own documents; other members of such names show what is behind. */
const RULES = {
  check: checkRerank,
  governed: ['model', 'query', 'documents', 'top_n'],
  own: ['return_documents'],
  withParts: ['documents'],
};

/** With this member llama.cpp answers as TEI does, which tells no usage. */
const TEXTS = 'texts';
const IN_PLACE = " Documents are sent as 'documents'.";

/** How much of a query is kept to estimate its tokens. */
const KEPT_BYTES = 2048;

interface Rerank {
  readonly documents: readonly unknown[];
  readonly top_n?: number | null;
}

/** Some engines refuse a `top_n` above the number of documents: there it becomes that number, which means all. */
function allWhereMore({ request: { documents, top_n }, members }: ValidBody<Rerank>): Edit[] {
  if (top_n == null || top_n <= documents.length) return [];
  const { valueStart, valueEnd } = memberNamed(members, 'top_n') as Member;
  return [{ start: valueStart, end: valueEnd, bytes: Buffer.from(String(documents.length)) }];
}

function repeatedIn({ request, body, members }: ValidBody<Rerank>): Repeated {
  const query = memberNamed(members, 'query') as Member;
  const documents = memberNamed(members, 'documents') as Member;
  const start = query.valueStart + 1;
  const end = query.valueEnd - 1;
  return {
    times: request.documents.length - 1,
    around: body.length - (documents.valueEnd - documents.valueStart),
    bytes: end - start,
    beginning: Buffer.from(body.slice(start, Math.min(end, start + KEPT_BYTES))),
    media: request.documents.reduce<number>((n, each) => n + (isTextDocument(each) ? 0 : 1), 0),
  };
}
