import { ambiguous, type JsonFault, type Member, type Members, parseObject } from '../bytes/json.ts';
import { type ErrorName, GatewayError } from '../domain/errors.ts';

/** A request body that was read in one way only: what was checked is what the bytes say. */
export interface Judged<T> {
  readonly request: T;
  readonly body: Buffer;
  readonly members: Members;
}

/**
 * Reads and checks a request body (spec section 4): parsed for the judgement, kept as
 * bytes for the forwarding.
 * @param check the schema check, which throws GatewayError 400
 * @param governed members the gateway decides by; readable in two ways they are refused
 * @param isSteering members that could choose another model, host or key are refused
 * @throws GatewayError 400
 */
export function judge<T>(
  body: Buffer,
  check: (value: unknown) => T,
  governed: readonly string[],
  isSteering: (member: string) => boolean,
): Judged<T> {
  const parsed = parseObject(body);
  if (typeof parsed === 'string') throw new GatewayError(FAULTS[parsed], FAULT_TEXTS[parsed]);
  const { value, members } = parsed;
  const twice = ambiguous(members, governed);
  if (twice !== null) throw twoReadings(twice);
  for (const { name } of members) {
    if (isSteering(name)) {
      throw new GatewayError('unsupported_parameter', `Unsupported parameter: '${name}'.`, name);
    }
  }
  return { request: check(value), body, members };
}

export function twoReadings(param: string): GatewayError {
  return new GatewayError('invalid_request', `The parameter '${param}' could be read in two ways.`, param);
}

const FAULTS: Readonly<Record<JsonFault, ErrorName>> = {
  invalid_json: 'invalid_json',
  not_an_object: 'invalid_type',
  too_deep: 'invalid_request',
};

const FAULT_TEXTS: Readonly<Record<JsonFault, string | undefined>> = {
  invalid_json: undefined,
  not_an_object: 'The request body must be a JSON object.',
  too_deep: 'The request body is nested too deeply.',
};

export function memberNamed(members: Members, name: string): Member | undefined {
  for (const member of members) if (member.name === name) return member;
  return undefined;
}

/** A JSON string literal. */
export function quoted(text: string): Buffer {
  return Buffer.from(JSON.stringify(text));
}
