import { isUtf8 } from 'node:buffer';
import { type Member, type Members, memberNamed } from '../../json/members.ts';
import { nameSpelling, unseenIn } from '../visible-text.ts';

/**
 * End users: the people behind a key that a front end holds for many (sql/PRIVACY.md). A name is what the front end calls
 * somebody: an id, an address, a pseudonym. It goes nowhere but to the table of names, which gives it an id.
 */

/** The longest name, in bytes of UTF-8. */
const LONGEST = 256;
/** The longest value that may be a name, as it is written: each byte may be an escape of six. */
const LONGEST_WRITTEN = 6 * LONGEST;
/** Members of a body that name the person: those of chat, responses and embeddings, in their order. */
const MEMBERS = ['user', 'safety_identifier'];
/** What a program sends in place of a name that it does not have: a template that nobody filled in, or the word for none. */
const NO_NAME = /\{\{[^{}]*\}\}|\$\{[^{}]*\}|^(?:undefined|null|None|NaN|\[object Object\])?$/;

/** The one spelling of a name; null: the text names nobody. */
export function endUserName(text: string): string | null {
  const name = nameSpelling(text.trim());
  if (
    name === '' ||
    Buffer.byteLength(name) > LONGEST ||
    !name.isWellFormed() ||
    unseenIn(name) !== null
  )
    return null;
  return name;
}

/**
 * The person whom the headers of a request name: in the first of these headers that says something (see NO_NAME). A
 * header that says two things names nobody.
 * @param names of headers in lowercase, in their order
 * @param raw names and values in turn, values as latin1
 */
export function endUserInHeaders(names: readonly string[], raw: readonly string[]): string | null {
  for (const name of names) {
    let told: string | null = null;
    for (let i = 0; i < raw.length; i += 2) {
      const header = raw[i] as string;
      if (header.length !== name.length || header.toLowerCase() !== name) continue;
      const value = (raw[i + 1] as string).trim();
      if (told !== null && told !== value) return null;
      told = value;
    }
    const text = told === null ? '' : textInHeader(told);
    if (text === null) return null;
    if (!saysNothing(text)) return endUserName(text);
  }
  return null;
}

function saysNothing(text: string): boolean {
  return text.length <= LONGEST_WRITTEN && NO_NAME.test(text.trim());
}

/** A header is ASCII, UTF-8 where a program does not care, or percent-encoded, as Open WebUI sends names. */
function textInHeader(value: string): string | null {
  if (value.length > LONGEST_WRITTEN) return null;
  const bytes = Buffer.from(value, 'latin1');
  if (!isUtf8(bytes)) return null;
  const text = bytes.toString();
  if (!/%[\da-f]{2}/i.test(text)) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/**
 * The person whom a body names by the member that its format has for it: in the Messages API `metadata.user_id`, else the
 * first of MEMBERS that says something (see NO_NAME). A member that is there twice names nobody.
 * @param slice the bytes of the body from one offset to another
 * @param membersOf the members of an object; null: it is none
 */
export function endUserInBody(
  isMessages: boolean,
  members: Members,
  slice: (start: number, end: number) => Buffer,
  membersOf: (object: Buffer) => Members | null,
): string | null {
  if (isMessages) {
    const outer = memberNamed(members, 'metadata');
    if (outer === undefined) return null;
    const value = slice(outer.valueStart, outer.valueEnd);
    return nameIn(membersOf(value) ?? [], ['user_id'], (start, end) => value.subarray(start, end));
  }
  return nameIn(members, MEMBERS, slice);
}

function nameIn(
  members: Members,
  names: readonly string[],
  slice: (start: number, end: number) => Buffer,
): string | null {
  for (const name of names) {
    const found = members.filter((member) => member.name === name);
    if (found.length === 0) continue;
    const { valueStart, valueEnd } = found[0] as Member;
    if (found.length > 1 || valueEnd - valueStart > LONGEST_WRITTEN) return null;
    const value: unknown = JSON.parse(slice(valueStart, valueEnd).toString());
    if (value === null || (typeof value === 'string' && saysNothing(value))) continue;
    return typeof value === 'string' ? endUserName(value) : null;
  }
  return null;
}
