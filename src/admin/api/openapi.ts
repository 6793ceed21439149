import type { Schema } from '../../domain/settings/schema.ts';
import * as schema from '../../domain/settings/schema.ts';
import { hasTag, type Operation, paramsOf } from '../../operations/frame/row.ts';
import { OPERATIONS } from '../../operations/list.ts';

const PROBLEM = schema.object(
  {
    type: schema.string,
    title: schema.string,
    status: { type: 'integer' },
    detail: schema.string,
    errors: schema.array(schema.object({ pointer: schema.string, detail: schema.string })),
  },
  ['type', 'title', 'status', 'detail'],
);
const PROBLEM_ANSWER = {
  description: 'Problem details (RFC 9457)',
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
};
const UUID = { type: 'string', format: 'uuid' };
const DESCRIPTION = `Companies, models, prices, keys, assistants, people, usage, requests and the audit log, for programs. Amounts are exact decimal text.
Send an administration token of \`tollgate token create\` as \`Authorization: Bearer\`. Answers to GET of one thing have an ETag: with
\`If-Match\` a change is refused with 412 when somebody changed it meanwhile. A POST with an \`Idempotency-Key\` may be
sent again within a day: it gets the same answer, but for what is shown once, which is repeated for a minute only.`;

/** The description of all operations for client generators (OpenAPI 3.1). */
export function openApi(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    paths[operation.path] ??= {};
    (paths[operation.path] as Record<string, object>)[operation.method] = describe(operation);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Tollgate administration', version: '1', description: DESCRIPTION },
    servers: [{ url: '/api/v1' }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer' } },
      schemas: { Problem: PROBLEM },
    },
  };
}

function describe(operation: Operation): object {
  const { id, summary, method, path, query, body, status, resource, secret } = operation;
  const parameters: object[] = paramsOf(path).map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: UUID,
  }));
  for (const [name, schema] of Object.entries(query?.properties ?? {}))
    parameters.push({ name, in: 'query', schema });
  if (method === 'post')
    parameters.push(header('Idempotency-Key', 'any text of 1 to 200 characters'));
  if (resource !== undefined && method === 'get')
    parameters.push(header('If-None-Match', 'an ETag'));
  else if (resource !== undefined) parameters.push(header('If-Match', 'the ETag of what was read'));
  const once = [secret ?? []].flat().map((member) => ` The member ${member} is shown once.`);
  return {
    operationId: id,
    summary: [summary, ...once].join(''),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: requestBody(method, body) } }),
    responses: {
      [status]: { description: 'Done', ...tagOf(operation), ...contentOf(operation) },
      ...(hasTag(operation) && method === 'get'
        ? { 304: { description: 'It has the ETag of If-None-Match' } }
        : {}),
      default: PROBLEM_ANSWER,
    },
  };
}

function tagOf(operation: Operation): object {
  return hasTag(operation) ? { headers: { ETag: { schema: { type: 'string' } } } } : {};
}

function contentOf({ answer, file }: Operation): object {
  if (file !== undefined)
    return { content: { [file.type]: { schema: { type: 'string', format: 'binary' } } } };
  return answer === null ? {} : { content: json(answer) };
}

function header(name: string, description: string): object {
  return { name, in: 'header', schema: { type: 'string', description } };
}

function requestBody(method: Operation['method'], schema: Schema): object {
  return {
    ...json(schema),
    ...(method === 'patch' && { 'application/merge-patch+json': { schema } }),
  };
}

function json(schema: Schema): object {
  return { 'application/json': { schema } };
}
