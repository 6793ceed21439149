import { type ErrorName, GatewayError, twoReadings } from '../domain/errors.ts';
import type { ResponsesRequest } from '../domain/request.ts';
import { FILE_ID, requireNoFiles } from '../domain/stateless.ts';
import type { SteeringFilter } from '../domain/steering.ts';
import { OPEN_BRACKET, QUOTE } from '../json/bytes.ts';
import {
  ambiguous,
  foldsTo,
  itemsOf,
  type JsonFault,
  MAX_MEMBERS,
  MAX_NAMES,
  type Member,
  type Members,
  memberNamed,
  type ParsedObject,
  type Span,
} from '../json/members.ts';
import { parseObject } from '../json/parser.ts';
import { MAX_VALUES } from '../json/stream-parser.ts';
import type { RequestBody } from './body.ts';

/** A request body that every reader understands in the same way: what was checked is what the bytes say. */
export interface ValidBody<T> {
  readonly request: T;
  readonly body: RequestBody;
  readonly members: Members;
  /** The index of `metadata` among them; -1 without. */
  readonly metadata: number;
}

/**
 * Checks a request body (spec section 4). It is parsed for the check and kept as bytes to be sent on.
 * @param check the schema check; throws GatewayError 400
 * @param governed members that the gateway decides by: refused where two readers could disagree about them
 * @param steering members that could choose another model, host or key, which are refused; null: the check refuses them
 * @param own members of the dialect that the caller of this function checks itself
 * @param untyped the type of a tool that has none, by the rules of the dialect
 * @throws GatewayError 400
 */
export function validateBody<T>(
  body: RequestBody,
  check: (value: unknown) => T,
  governed: readonly string[],
  steering: SteeringFilter | null,
  own: readonly string[] = NONE,
  untyped: string | null = null,
): ValidBody<T> {
  const { object } = body;
  if (typeof object === 'string') throw new GatewayError(FAULTS[object], FAULT_TEXTS[object]);
  const { value, members, watched, retyped } = object;
  const twice = ambiguous(members, governed) ?? ambiguous(members, WITH_MEMBERS);
  if (twice !== null) throw twoReadings(twice);
  for (const index of retyped) {
    const { name } = members[index] as Member;
    if (WITH_TYPES.includes(name)) throw twoReadings(`${name}[].type`);
  }
  if (watched.length > 0 && steering?.refuses(FILE_ID) !== false) {
    requireNoFiles(watched.map((index) => (members[index] as Member).name));
  }
  const metadata =
    steering === null
      ? members.findIndex(({ name }) => name === METADATA)
      : refuseSteering(body, members, value, steering, own, untyped);
  return { request: check(value), body, members, metadata };
}

const NONE: readonly string[] = [];

/** Members whose items are checked by their type. */
const WITH_TYPES = ['tools', 'input'];
const METADATA = 'metadata';
/** Members whose own members are checked. */
const WITH_MEMBERS = [METADATA, 'tools', 'chat_template_kwargs'];

/** @returns the index of `metadata` among the members; -1 without */
function refuseSteering(
  body: RequestBody,
  members: Members,
  value: Readonly<Record<string, unknown>>,
  steering: SteeringFilter,
  own: readonly string[],
  untyped: string | null,
): number {
  let metadata = -1;
  for (let index = 0; index < members.length; index++) {
    const member = members[index] as Member;
    const { name } = member;
    if (steering.refuses(name) && !own.includes(name)) throw unsupported(name);
    if (name === METADATA) {
      validateMetadata(body, member, steering);
      metadata = index;
    } else if (name === 'tools') validateTools(body, member, value.tools, { steering, untyped });
    else if (name === 'chat_template_kwargs') validateKwargs(value.chat_template_kwargs, steering);
  }
  return metadata;
}

/** Checks `metadata`: routers obey members of it too, and read text in it as JSON. */
function validateMetadata(body: RequestBody, member: Member, steering: SteeringFilter): void {
  const bytes = bytesWithin(body, member);
  if (bytes.equals(NULL)) return;
  const members = membersWithin(bytes, member);
  if (members === null) {
    throw new GatewayError('invalid_type', "Invalid type for 'metadata': must be object or null.", 'metadata');
  }
  for (const { name, valueStart } of members) {
    if (!steering.refusesInMetadata(name, bytes[valueStart] === QUOTE)) continue;
    throw unsupported(`metadata.${beforeNul(name)}`);
  }
}

/** A group of the caller's tools under one name. */
const TOOL_GROUP = 'namespace';
/** Bytes of tools that are read one by one, and of lists around them outside of strings: 512 KiB take 2 to 4 ms. */
const MOST_TOOLS = 1_048_576;
const MOST_LISTED = 524_288;

/** What decides about a tool. */
interface ToolRule {
  readonly steering: SteeringFilter;
  /** What a tool without a type is in the dialect. */
  readonly untyped: string | null;
}

/** Refuses tools that run at the router or the provider: all types but those that the caller runs. */
function validateTools(body: RequestBody, member: Member, tools: unknown, rule: ToolRule): void {
  if (!Array.isArray(tools)) return;
  // tools of groups lie deeper than the parsed value reaches
  if (tools.some((tool) => tool?.type === TOOL_GROUP)) {
    return validateToolBytes(bytesWithin(body, member, MOST_TOOLS), 'tools', rule);
  }
  for (let i = 0; i < tools.length; i++) {
    const tool = tools[i];
    if (typeof tool !== 'object' || tool === null) continue;
    for (const name in tool) if (name !== 'type' && foldsTo(name, 'type')) throw twoReadings(`tools[${i}].type`);
    requireCallersTool(tool, `tools[${i}]`, rule);
  }
}

/**
 * The same for tools in groups or in an item of a response's input, which are deeper than the value goes.
 * @param bytes of a list
 * @param parent where it stands, for the error
 */
function validateToolBytes(bytes: Buffer, parent: string, rule: ToolRule, mayGroup = true): void {
  for (const [i, { start, end }] of itemsWithin(bytes, parent).entries()) {
    const at = `${parent}[${i}]`;
    const tool = objectWithin(bytes.subarray(start, end), at);
    if (tool === null) continue;
    requireOnce(tool.members, 'type', at);
    if (!mayGroup || tool.value.type !== TOOL_GROUP) {
      requireCallersTool(tool.value, at, rule);
      continue;
    }
    requireOnce(tool.members, 'tools', at);
    const inner = memberNamed(tool.members, 'tools');
    if (inner === undefined) continue;
    validateToolBytes(bytes.subarray(start + inner.valueStart, start + inner.valueEnd), `${at}.tools`, rule, false);
  }
}

/** Items of a response's input that bring tools besides those of the list. */
const WITH_TOOLS: ReadonlySet<unknown> = new Set(['additional_tools', 'tool_search_output']);

/**
 * Checks the tools that items of a response's input bring: Codex sends all of its own in one.
 * @throws GatewayError 400
 */
export function validateItemTools({ body, members, request }: ValidBody<ResponsesRequest>, steering: SteeringFilter) {
  const { input } = request;
  if (typeof input === 'string' || !input.some(({ type }) => WITH_TOOLS.has(type))) return;
  const { valueStart, valueEnd } = memberNamed(members, 'input') as Member;
  const bytes = body.slice(valueStart, valueEnd);
  let size = 0;
  for (const [i, { start, end }] of itemsWithin(bytes, 'input').entries()) {
    if (!WITH_TOOLS.has(input[i]?.type)) continue;
    const at = `input[${i}]`;
    size += end - start;
    if (size > MOST_TOOLS) throw tooLarge(at, MOST_TOOLS);
    const item = objectWithin(bytes.subarray(start, end), at) as ParsedObject;
    requireOnce(item.members, 'tools', at);
    const tools = memberNamed(item.members, 'tools');
    if (tools === undefined) continue;
    const list = bytes.subarray(start + tools.valueStart, start + tools.valueEnd);
    if (list[0] !== OPEN_BRACKET) {
      throw new GatewayError('invalid_type', `Invalid type for '${at}.tools': must be array.`, `${at}.tools`);
    }
    validateToolBytes(list, `${at}.tools`, { steering, untyped: null });
  }
}

function requireCallersTool(
  tool: Readonly<Record<string, unknown>>,
  at: string,
  { steering, untyped }: ToolRule,
): void {
  // Gemini's tools have no type and no name, but a member named for them
  const type = tool.type ?? ('function' in tool ? 'function' : 'name' in tool ? untyped : null);
  if (steering.refusesTool(type)) throw unsupported(`${at}.type`, HOSTED);
}

function itemsWithin(list: Buffer, name: string): Span[] {
  const items = itemsOf(list, MOST_LISTED);
  if (items !== null) return items;
  throw new GatewayError('invalid_request', `'${name}' has more than ${MOST_LISTED} bytes outside of strings.`, name);
}

function requireOnce(members: Members, name: string, at: string): void {
  if (ambiguous(members, [name]) !== null) throw twoReadings(`${at}.${name}`);
}

const HOSTED =
  ' Only tools that the caller runs are available, such as functions: others reach what the provider stores.';

/** Refuses the chat template itself: it would run as code in the engine. */
function validateKwargs(kwargs: unknown, steering: SteeringFilter): void {
  if (typeof kwargs !== 'object' || kwargs === null) return;
  for (const name in kwargs) if (steering.refusesInKwargs(name)) throw unsupported(`chat_template_kwargs.${name}`);
}

const NULL = Buffer.from('null');

/**
 * The value of a member whose own members are checked. The check runs in one piece, so the size is bounded:
 * 20 MiB of `metadata` took 6 s.
 * @param most size in bytes
 * @throws GatewayError 400
 */
export function bytesWithin(
  body: RequestBody,
  { name, valueStart, valueEnd }: Member,
  most: number = MOST_WITHIN,
): Buffer {
  if (valueEnd - valueStart <= most) return body.slice(valueStart, valueEnd);
  throw tooLarge(name, most);
}

function tooLarge(name: string, most: number): GatewayError {
  return new GatewayError('invalid_request', `'${name}' is larger than ${most} bytes.`, name);
}

/**
 * The members of such a value; null when it is no object.
 * @throws GatewayError 400
 */
export function membersWithin(value: Buffer, { name }: Member): Members | null {
  return objectWithin(value, name)?.members ?? null;
}

/** @param name where the value stands, for the error */
function objectWithin(value: Buffer, name: string): ParsedObject | null {
  const object = parseObject(value);
  if (typeof object !== 'string') return object;
  const most = object === 'too_many_members' ? MAX_MEMBERS : object === 'too_many_names' ? MAX_NAMES : null;
  if (most === null) return null;
  throw new GatewayError('invalid_request', `'${name}' has more than ${most} members.`, name);
}

const MOST_WITHIN = 65_536;

/** The name as a reader of C strings has it. */
function beforeNul(name: string): string {
  return name.split('\0', 1)[0] as string;
}

function unsupported(name: string, why = ''): GatewayError {
  return new GatewayError('unsupported_parameter', `Unsupported parameter: '${name}'.${why}`, name);
}

const FAULTS: Readonly<Record<JsonFault, ErrorName>> = {
  invalid_json: 'invalid_json',
  not_an_object: 'invalid_type',
  too_deep: 'invalid_request',
  too_many_members: 'invalid_request',
  too_many_names: 'invalid_request',
  too_many_values: 'invalid_request',
};

const FAULT_TEXTS: Readonly<Record<JsonFault, string | undefined>> = {
  invalid_json: undefined,
  not_an_object: 'The request body must be a JSON object.',
  too_deep: 'The request body is nested too deeply.',
  too_many_members: `The request body has more than ${MAX_MEMBERS} members.`,
  too_many_names: `The objects in the request body have more than ${MAX_NAMES} different member names.`,
  too_many_values: `The request body has more than ${MAX_VALUES} values.`,
};
