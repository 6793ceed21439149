import { isUtf8 } from 'node:buffer';

/**
 * The event-stream rules of the contract, written for reading and not for speed: the whole
 * stream so far is looked at again for every answer. Texts are latin1: one character a byte.
 */

export interface Reference {
  readonly output: string;
  readonly state: 'open' | 'done' | 'broken';
}

/**
 * What is to have left after this much of a stream.
 * @param ended whether the upstream closed cleanly behind it
 */
export function reference(stream: string, ended: boolean, slug: string, maxEventBytes: number): Reference {
  let output = '';
  let first = true;
  let finished = false;
  let size = 0;
  let cut = false;
  let isNamedError = false;
  let lines: Line[] = [];
  const over = (state: 'done' | 'broken') => ({ output: output + (state === 'done' ? 'data: [DONE]\n\n' : ''), state });

  if (stream.startsWith('\x1f')) return over('broken');
  const text = stream.startsWith('\xef\xbb\xbf') ? stream.slice(3) : stream;
  if (!ended && '\xef\xbb\xbf'.startsWith(text)) return { output: '', state: 'open' };
  for (const { content, end } of split(text)) {
    const whole = end !== '';
    if (content.startsWith(':')) {
      if (whole) output += ':\n\n';
      continue;
    }
    if (size + content.length > maxEventBytes) return over('broken');
    if (!whole && !ended) break;
    cut = !whole;
    size += content.length;
    const data = dataOf(content);
    if (data !== null) {
      lines.push({ head: content.slice(0, content.length - data.length), data, end });
    } else if (content !== '') {
      if (/^error(:|$)/.test(content) || /^[ \t]*["<[{]/.test(content)) {
        return over('broken');
      }
      if (/^event: ?.*(error|exception)$/i.test(content)) isNamedError = true;
    } else if (isNamedError) {
      return over('broken');
    } else {
      const payload = lines.map((line) => line.data).join('\n');
      if (trim(payload) === '[DONE]' && lines.length === 1) return over('done');
      if (trim(payload) !== '') {
        if (!isUtf8(Buffer.from(payload, 'latin1'))) return over('broken');
        const members = membersOf(payload);
        if (members === null) return over('broken');
        if (members.some(({ name, text }) => /^errors?$/.test(name) && !/^(null|\[\s*\])$/.test(text)))
          return over('broken');
        if (!members.some(({ name, text }) => name === 'choices' && Array.isArray(JSON.parse(text)))) {
          const { object, type, usage, success, ...rest } = JSON.parse(payload);
          if ([object, type].some((text) => /(error|exception)$/i.test(`${text}`))) return over('broken');
          const faults = Object.keys(rest).filter((name) => /^(err|fault|exception|detail|message$|msg$)/i.test(name));
          if (
            usage == null &&
            (success === false || faults.some((name) => !['null', '""', '[]'].includes(JSON.stringify(rest[name]))))
          )
            return over('broken');
        }
        if (generates(Object.values(JSON.parse(payload)))) finished = false; // another choice goes on
        for (const { name, text } of members) {
          const choices = name === 'choices' ? JSON.parse(text) : null;
          for (const choice of Array.isArray(choices) ? choices : []) {
            if (choice !== null && (choice.error ?? null) !== null) return over('broken');
            if (typeof choice?.finish_reason === 'string' && choice.finish_reason !== '') finished = true;
          }
        }
        output += patched(lines, payload, members, first, slug) + end;
        first = false;
      }
      lines = [];
      size = 0;
    }
  }
  if (!ended) return { output, state: 'open' };
  if (isNamedError) return over('broken');
  if (lines.length === 1 && trim((lines[0] as Line).data) === '[DONE]') return over('done');
  return over(lines.length === 0 && finished && !cut ? 'done' : 'broken');
}

const GENERATED = ['content', 'text', 'refusal', 'reasoning_content', 'reasoning', 'arguments', 'input'];

/** Whether there is generated text in a value. */
function generates(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(
    ([name, of]) => generates(of) || (GENERATED.includes(name) && typeof of === 'string' && of !== ''),
  );
}

interface Line {
  /** The field name, colon and space. */
  readonly head: string;
  readonly data: string;
  readonly end: string;
}

/** Lines with their ends; the last may have none. A CR at the very end is one: it counts at once. */
function split(text: string): { content: string; end: string }[] {
  return [...text.matchAll(/([^\r\n]*)(\r\n|\r|\n)|[^\r\n]+$/g)].map((match) => ({
    content: match[1] ?? match[0],
    end: match[2] ?? '',
  }));
}

function trim(text: string): string {
  return text.replace(/^[ \t\n]+|[ \t\n]+$/g, '');
}

function dataOf(content: string): string | null {
  const match = /^data(?:: ?(.*))?$/s.exec(content);
  return match === null ? null : (match[1] ?? '');
}

interface Span {
  readonly name: string;
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
  readonly text: string;
}

/** The members of an object in JSON text; null when it is none. */
function membersOf(text: string): Span[] | null {
  try {
    const value = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  } catch {
    return null;
  }
  // valid: so a pattern for strings and a count of brackets are enough
  const members: Span[] = [];
  const tokens = [...text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/gs)];
  let depth = 0;
  let key: RegExpExecArray | null = null;
  let valueStart = -1;
  for (const [i, token] of tokens.entries()) {
    if ('[{'.includes(token[0])) depth++;
    if (depth === 1 && token[0] === ':') {
      key = tokens[i - 1] as RegExpExecArray;
      valueStart = (tokens[i + 1] as RegExpExecArray).index;
    }
    if ('}]'.includes(token[0])) depth--;
    if (key !== null && ((depth === 1 && token[0] === ',') || depth === 0)) {
      const last = tokens[i - 1] as RegExpExecArray;
      const end = last.index + last[0].length;
      members.push({ name: JSON.parse(key[0]), start: key.index, valueStart, end, text: text.slice(valueStart, end) });
      key = null;
    }
  }
  return members;
}

const LEAKS = ['provider', '_hidden_params', 'provider_specific_fields', 'x_groq'];
const PRICES = ['cost'];

/** The event's data lines with model replaced or inserted and leaks removed. */
function patched(
  lines: readonly Line[],
  payload: string,
  members: readonly Span[],
  first: boolean,
  slug: string,
): string {
  // every character of the payload, and what stands in its place
  const cells = [...payload];
  const remove = (start: number, end: number) => {
    for (let i = start; i < end; i++) if (payload[i] !== '\n') cells[i] = '';
  };
  /** Removes members of an object that begins at `from`. @returns the last that stays, or -1 */
  const leave = (members: readonly Span[], leaks: readonly string[], from: number): number => {
    let kept = -1;
    for (const [i, { name, start, end }] of members.entries()) {
      if (!leaks.includes(name)) kept = i;
      else if (kept < 0) remove(from + start, from + (members[i + 1]?.start ?? end));
      else remove(payload.indexOf(',', from + (members[i - 1] as Span).end), from + end);
    }
    return kept;
  };
  const kept = leave(members, LEAKS, 0);
  for (const member of members) {
    if (member.name === 'usage') leave(membersOf(member.text) ?? [], PRICES, member.valueStart);
    if (member.name === 'model') {
      remove(member.valueStart, member.end);
      cells[member.valueStart] = slug;
    }
  }
  if (first && !members.some(({ name }) => name === 'model')) {
    cells[payload.indexOf('{')] = `{"model":${slug}${kept < 0 ? '' : ','}`;
  }
  let at = 0;
  let text = '';
  for (const { head, data, end } of lines) {
    text += head + cells.slice(at, at + data.length).join('') + end;
    at += data.length + 1;
  }
  return text;
}
