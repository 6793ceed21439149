import { mayRunAgain, type RequestMembers } from './completion-limit.ts';
import { NameSet } from './name-set.ts';
import { CALLERS_TOOLS, HARMLESS, STEERING_TABLE } from './steering-table.ts';

/*
 * Whether a prompt is the text of its body and nothing else: then it has no more tokens than the body has bytes, and
 * what an upstream tells beyond that is not believed. What is not known to be text has no such bound.
 */

const words = (names: string): string[] => names.split(/\s+/);

/** Types of parts and of input items that have no more tokens than bytes. */
// biome-ignore format: a table
const TEXT_PARTS: ReadonlySet<unknown> = new Set([
  'text', 'input_text', 'output_text', 'refusal', 'reasoning_text', 'thinking', 'redacted_thinking',
  'tool_use', 'tool_result',
]);
const TEXT_ITEMS: ReadonlySet<unknown> = new Set([
  'message',
  'reasoning',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
]);
/**
 * Members of messages and items that are read as JSON where they are objects or lists, and those whose parts are looked
 * at. Others may be sound that is stored.
 */
const JSON_MEMBERS = new Set(
  words(`content output tool_calls function_call arguments input summary reasoning reasoning_content reasoning_details
    thinking_blocks cache_control logprobs`),
);
/** Members of messages, parts and documents that hold media, or where they are. */
const MEDIA_NAMES =
  words(`image images image_* *_image img video videos video_* audio audio_* media media_* file files file_* *_file
    pdf url urls *_url uri uris *_uri bytes base64 data *_embeds`);
const MEDIA = new NameSet(MEDIA_NAMES);
/**
 * Members of a request by which texts from elsewhere come into the prompt, where an operator allows them; media; and what
 * some engines read in place of the messages.
 */
const ADDING = new NameSet([
  ...STEERING_TABLE.flatMap(([names, , , adds]) => (adds === undefined ? [] : words(names))),
  ...MEDIA_NAMES,
  'inputs',
  'contents',
]);
const NOT_ADDING = new Set(['audio', ...HARMLESS.flatMap(([names]) => words(names))]); // `audio` names a voice
/** Members of nearly every message and part, which are not looked up. */
const TEXTS: ReadonlySet<string> = new Set(
  words('type text role name id tool_call_id tool_use_id call_id status signature').filter(
    (name) => !MEDIA.has(name),
  ),
);
const IMAGE_PARTS: ReadonlySet<unknown> = new Set(['image_url', 'input_image']);
/** What is left of an image whose content was taken out of the body, or a short one. */
const WHOLE_IMAGE = /^(?:data:image\/[^,]*;base64,[\w+/=\r\n-]*|[\w+/=\r\n-]{32,})?$/i;

/** @param orImages whether images may be in it, each whole and not by its address */
export function isTextAlone(request: RequestMembers, orImages = false): boolean {
  if (mayRunAgain(request) || addsMore(request)) return false;
  const { messages, input, prompt, query, documents, system, instructions } = request;
  const { tools, functions } = request;
  const prompts = [input, prompt, query]; // lists have texts or token ids
  return (
    (messages === undefined || isText(messages, orImages)) &&
    prompts.every((each) => each == null || typeof each === 'string' || isText(each, orImages)) &&
    (messages !== undefined || !Array.isArray(documents) || documents.every(isTextDocument)) &&
    isTextContent(system, orImages) &&
    (typeof instructions === 'string' || isText(instructions ?? [], orImages)) &&
    areDefined(tools) &&
    areDefined(functions)
  );
}

/** Whether a document to be ranked is text: of others readers take members for images, or fetch them. In chat it is JSON. */
export function isTextDocument(document: unknown): boolean {
  return (
    typeof document !== 'object' ||
    document === null ||
    hasNoMedia(document as RequestMembers, NO_MEMBERS)
  );
}

const NO_MEMBERS: ReadonlySet<string> = new Set();

function addsMore(request: RequestMembers): boolean {
  for (const name in request)
    if (ADDING.has(name) && !NOT_ADDING.has(name) && asks(request[name])) return true;
  return false;
}

function asks(value: unknown): boolean {
  return value != null && value !== false && !(Array.isArray(value) && value.length === 0);
}

/** Whether all that tools add to the prompt stands in the body. The provider runs others, or has texts of its own for them. */
function areDefined(tools: unknown): boolean {
  return tools == null || (Array.isArray(tools) && tools.every(isDefined));
}

function isDefined(tool: unknown): boolean {
  if (typeof tool !== 'object' || tool === null) return false;
  const { type, name, function: called, custom, tools } = tool as RequestMembers;
  if (type === 'namespace') return areDefined(tools ?? null);
  return (
    CALLERS_TOOLS.includes((type ?? 'function') as string) && (name ?? called ?? custom) != null
  );
}

function isText(messages: unknown, orImages: boolean): boolean {
  if (!Array.isArray(messages)) return false;
  return messages.every((message) => {
    if (typeof message !== 'object' || message === null || Array.isArray(message)) return true;
    const { type, content, output } = message as RequestMembers;
    return (
      TEXT_ITEMS.has(type ?? 'message') &&
      isTextContent(content, orImages) &&
      isTextContent(output, orImages) &&
      hasNoMedia(message as RequestMembers, JSON_MEMBERS)
    );
  });
}

/**
 * Whether members are no media, and texts or JSON of known names. Nothing is allocated: a conversation has thousands.
 * @param json null: of any name
 */
function hasNoMedia(members: RequestMembers, json: ReadonlySet<string> | null): boolean {
  for (const name in members) {
    const value = members[name];
    if ((typeof value === 'string' && TEXTS.has(name)) || !asks(value)) continue;
    if (MEDIA.has(name) || (json !== null && typeof value === 'object' && !json.has(name)))
      return false;
  }
  return true;
}

function isTextContent(content: unknown, orImages: boolean): boolean {
  if (Array.isArray(content)) return content.every((part) => isTextPart(part, orImages));
  return content == null || typeof content === 'string';
}

/** The result of a tool has parts of its own. Some readers take an image by its name, whatever the type says. */
function isTextPart(part: unknown, orImages: boolean): boolean {
  const { type, content, image_url: image, source } = (part ?? {}) as RequestMembers;
  if (TEXT_PARTS.has(type))
    return (
      isTextContent(content, orImages) &&
      (type === 'redacted_thinking' || hasNoMedia(part as RequestMembers, null))
    );
  if (!orImages) return false;
  if (type === 'image') return isWhole((source as RequestMembers | null | undefined)?.data);
  return (
    IMAGE_PARTS.has(type) &&
    isWhole(typeof image === 'string' ? image : (image as RequestMembers | null)?.url)
  );
}

function isWhole(content: unknown): boolean {
  return typeof content === 'string' && WHOLE_IMAGE.test(content);
}
