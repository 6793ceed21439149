import { GatewayError, twoReadings, unsupportedParameter } from '../../domain/errors.ts';
import { CALLERS_TOOLS } from '../../domain/members/steering-table.ts';
import type { ResponsesRequest } from '../../domain/request/request.ts';
import { isCallersUnnamedTool, type SteeringFilter } from '../../domain/request/steering.ts';
import { OPEN_BRACKET } from '../../json/bytes.ts';
import {
  foldsTo,
  itemsOf,
  type Member,
  memberNamed,
  type ParsedObject,
  type Span,
} from '../../json/members.ts';
import type { RequestBody, ValidBody } from '../request/body.ts';
import { bytesWithin, objectWithin, requireOnce, tooLarge } from './members-within.ts';

/** A group of the caller's tools under one name. */
const TOOL_GROUP = 'namespace';
/** Bytes of tools that are read one by one, and of lists around them outside of strings: 512 KiB take 2 to 4 ms. */
const MOST_TOOLS = 1_048_576;
const MOST_LISTED = 524_288;

/** What decides about a tool. */
interface ToolRule {
  readonly steering: SteeringFilter;
  /** What a tool without a type is in the dialect. */
  readonly untypedTool: string | null;
}

/** Refuses tools that run at the router or the provider: all types but those that the caller runs. */
export function validateTools(
  body: RequestBody,
  member: Member,
  tools: unknown,
  rule: ToolRule,
): void {
  const { name: list } = member;
  if (!Array.isArray(tools)) return;
  // tools of groups lie deeper than the parsed value reaches
  if (tools.some((tool) => tool?.type === TOOL_GROUP)) {
    return validateToolBytes(bytesWithin(body, member, MOST_TOOLS), list, rule);
  }
  for (let i = 0; i < tools.length; i++) {
    const tool = tools[i];
    if (typeof tool !== 'object' || tool === null) continue;
    for (const name in tool)
      if (name !== 'type' && foldsTo(name, 'type')) throw twoReadings(`${list}[${i}].type`);
    requireCallersTool(tool, `${list}[${i}]`, rule);
  }
}

/**
 * Refuses tools of a list that is deeper than the parsed value reaches: a group, or an item of a response's input.
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
    validateToolBytes(
      bytes.subarray(start + inner.valueStart, start + inner.valueEnd),
      `${at}.tools`,
      rule,
      false,
    );
  }
}

/** Items of a response's input that bring tools besides those of the list. */
const WITH_TOOLS: ReadonlySet<unknown> = new Set(['additional_tools', 'tool_search_output']);

/**
 * Checks the tools that items of a response's input bring: Codex sends all of its own in one.
 * @throws GatewayError 400
 */
export function validateItemTools(
  { body, members, request }: ValidBody<ResponsesRequest>,
  steering: SteeringFilter,
) {
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
      throw new GatewayError(
        'invalid_type',
        `Invalid type for '${at}.tools': must be array.`,
        `${at}.tools`,
      );
    }
    validateToolBytes(list, `${at}.tools`, { steering, untypedTool: null });
  }
}

function requireCallersTool(
  tool: Readonly<Record<string, unknown>>,
  at: string,
  { steering, untypedTool }: ToolRule,
): void {
  // Gemini's tools have no name, but a member named for them; LiteLLM overlooks a type beside it
  const isNamed = 'name' in tool || 'function' in tool || 'custom' in tool;
  const type = tool.type ?? ('function' in tool ? 'function' : untypedTool);
  if (!steering.refusesTool(type, isNamed) || isCallersUnnamedTool(tool)) return;
  throw unsupportedParameter(`${at}.type`, reasonOf(tool, type));
}

/** Why a tool is refused, and the setting by which operators allow its type. */
function reasonOf({ environment }: Readonly<Record<string, unknown>>, type: unknown): string {
  if (typeof type !== 'string' || !TYPE.test(type) || CALLERS_TOOLS.includes(type)) return HOSTED;
  const isLocal =
    type === 'shell' && (environment as { type?: unknown } | null | undefined)?.type === 'local';
  const why = isLocal || CLIENTS_TYPES.includes(type) ? NOT_TO_ALL : HOSTED;
  return `${why} The operator can allow the type: REFUSED_PARAMETERS=-tools.${type}`;
}

function itemsWithin(list: Buffer, name: string): Span[] {
  const items = itemsOf(list, MOST_LISTED);
  if (items !== null) return items;
  throw new GatewayError(
    'invalid_request',
    `'${name}' has more than ${MOST_LISTED} bytes outside of strings.`,
    name,
  );
}

/** Types besides CALLERS_TOOLS of which clients run the tools themselves. */
const CLIENTS_TYPES = ['apply_patch', 'local_shell', 'computer', 'computer_use_preview'];
/** What a type looks like that may be told in an error. */
const TYPE = /^\w{1,64}$/;

const NOT_TO_ALL =
  ' The caller runs it, but it is a tool to some routers and models alone. Functions are available everywhere.';
const HOSTED =
  ' Only tools that the caller runs are available, such as functions: others reach what the provider stores.';
