import { foldsTo, SHORTENED } from '../../json/members.ts';
import { letterSet, pairSet, type WatchedNames } from '../../json/name-watcher.ts';
import { GatewayError, twoReadings, unsupportedParameter } from '../errors.ts';
import { NameSet } from '../members/name-set.ts';
import type { MessagesRequest, ResponsesRequest } from './request.ts';

/**
 * Request members that name state which the provider stores. One master key stands behind all companies: with it a
 * caller would read what another company stored.
 */

/** Members of a request that name such state, unless they are null or false. */
export const STORED_MEMBERS = [
  'previous_response_id',
  'conversation',
  'prompt',
  'background',
  'container',
  'thread',
] as const;

/** The member that names a stored file. */
const FILE_ID = 'file_id';
const FILE_IDS = new NameSet([FILE_ID]);
/** Members with the address of a file. */
const ADDRESS_NAMES =
  'url uri image video audio image_url video_url audio_url document_url file_url file_uri file_data'.split(
    ' ',
  );
const ADDRESSES = new NameSet(ADDRESS_NAMES);
/** Members with tensors in place of media: vLLM loads them as they are. */
const TENSORS = new NameSet(['image_embeds', 'audio_embeds', 'video_embeds']);
const ANY = /^/;
/**
 * An address that routers and providers read with the operator's account, such as `gs://bucket/file`: one with another
 * scheme than http, https and data, or with 64 blanks before it, which readers skip. Base64 has no scheme.
 */
const OF_ACCOUNT = /^[\0- ]*(?:[\0- ]{64}|(?!https?:|data:)[a-z][a-z\d+.\-\s]*:)/i;
/** Looks for file ids, tensors and such addresses in parts of messages and documents; in calls of tools they are the caller's arguments. */
export const STORED_FILES: WatchedNames = {
  first: letterSet('adfiuv'),
  ends: pairSet('id', 'rl', 'ri', 'ta', 'ds', 'il', 'ge', 'eo', 'io'),
  counts: (key) =>
    FILE_IDS.has(key) || TENSORS.has(key) ? ANY : ADDRESSES.has(key) ? OF_ACCOUNT : null,
  notBelow: { item: ['tool_calls', 'function_call'], part: ['input'] },
  files: new NameSet([...ADDRESS_NAMES, 'data']),
};
/** The members that hold messages or their parts. */
export const WITH_PARTS: readonly string[] = ['messages', 'input', 'system', 'instructions'];

/**
 * @param found members in which a file is named, or a tensor
 * @param refuses whether the list refuses a member: `file_id` stands for all files and addresses
 * @param withParts the members that hold messages, their parts or documents
 * @throws GatewayError 400 if one of them is among these
 */
export function requireNoFiles(
  found: readonly { readonly name: string; readonly key: string }[],
  refuses: (member: string) => boolean,
  withParts: readonly string[] = WITH_PARTS,
): void {
  for (const { name, key } of found) {
    const list = withParts.find((plain) => foldsTo(name, plain));
    if (list === undefined || !refuses(TENSORS.has(key) ? key : FILE_ID)) continue;
    if (FILE_IDS.has(key)) throw stored(`${list}[].${FILE_ID}`);
    const param = `${list}[].${key}`;
    if (TENSORS.has(key))
      throw unsupportedParameter(param, ' Media are sent as they are, not as tensors.');
    const text = `'${param}' has an address that is read with the operator's account: use https, or data.`;
    throw new GatewayError('unsupported_parameter', text, param);
  }
}

/** Additions to a response that show nothing stored. */
const INCLUDED: ReadonlySet<string> = new Set([
  'reasoning.encrypted_content',
  'message.output_text.logprobs',
  'message.input_image.image_url',
]);

/** Texts of `include` that are looked at: only three are allowed. */
const MOST_INCLUDED = 100;

/**
 * Types of items that name a stored item by its id alone. A type that was shortened may be any of them, written with
 * escapes: no type of the format is so long.
 */
const STORED_ITEMS: ReadonlySet<unknown> = new Set([
  'item_reference',
  'image_generation_call',
  'code_interpreter_call',
  SHORTENED,
]);

/** Makes the tool runners of Anthropic's SDKs, which ask for a thread by default, send the whole history instead. */
const UNTHREADED = { error_code: 'thread_unsupported_request', unsupported: ['thread'] };

/**
 * Messages have no `include` and `input`: there they may be anything.
 * @throws GatewayError 400 unless an answer depends on its request alone
 */
export function requireStateless(request: Partial<ResponsesRequest & MessagesRequest>): void {
  for (const name of STORED_MEMBERS) {
    const value = request[name];
    if (value === undefined || value === null || value === false) continue;
    const error = stored(name);
    if (name === 'thread') error.details = UNTHREADED;
    throw error;
  }
  const { include, input } = request;
  const shown = Array.isArray(include)
    ? include.findIndex((name, n) => n >= MOST_INCLUDED || !INCLUDED.has(name))
    : -1;
  if (shown >= 0) throw stored(`include[${shown}]`);
  if (!Array.isArray(input)) return;
  // an item with neither a type nor a role is a reference too
  const at = input.findIndex(
    (item) => STORED_ITEMS.has(item?.type) || (item?.type == null && item?.role == null),
  );
  if (at >= 0) throw stored(`input[${at}]`, BY_REFERENCE);
  const empty = input.findIndex(isIdAlone);
  if (empty >= 0)
    throw stored(`input[${empty}]`, input[empty]?.type === 'reasoning' ? REASONING : BY_REFERENCE);
  const folded = input.findIndex((item) =>
    Object.keys(item).some((name) => name !== 'type' && foldsTo(name, 'type')),
  );
  if (folded >= 0) throw twoReadings(`input[${folded}].type`);
}

/** For users of clients such as the Vercel AI SDK, which refers to earlier items by id unless it is told not to store. */
const BY_REFERENCE =
  ' Clients that name earlier items by their id send them whole with "store": false.';

/** For users of models that hide their reasoning: they get it encrypted, and only if they ask for it. */
const REASONING =
  ' Ask with "include": ["reasoning.encrypted_content"], and send items of type reasoning back with their encrypted_content.';

/** The error where the upstream says that it does not know an item: each was made with `store` set to false, by us. */
export function storedItem(): GatewayError {
  return stored('input', `${BY_REFERENCE}${REASONING}`);
}

/** Members that an item may have besides its content. */
const LABELS: ReadonlySet<string> = new Set(['id', 'type', 'status']);

/**
 * Whether an item holds nothing but its id, such as {"type":"reasoning","id":"rs_1","summary":[]}: it stands for a
 * stored item. An item with a summary passes: engines with open reasoning read it, and know no `encrypted_content`.
 */
function isIdAlone(item: Readonly<Record<string, unknown>>): boolean {
  if (typeof item.id !== 'string' || item.role != null) return false;
  return Object.keys(item).every((name) => LABELS.has(name) || isEmpty(item[name]));
}

function isEmpty(value: unknown): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

function stored(param: string, more = ''): GatewayError {
  const text = `'${param}' needs state that is stored at the provider, and this gateway keeps none: send all of the input.${more}`;
  return new GatewayError('unsupported_parameter', text, param);
}
