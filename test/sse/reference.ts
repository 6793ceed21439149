import { isUtf8 } from 'node:buffer';
import { chatUsage, readUsageMembers } from '../../src/json/usage.ts';

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
export function reference(
  stream: string,
  ended: boolean,
  slug: string,
  maxEventBytes: number,
): Reference {
  let output = '';
  let first = true;
  let finished = false;
  let hasReason = false;
  /** Whether a usage counted a completion, and no text followed. */
  let isCounted = false;
  let size = 0;
  let cut = false;
  let isNamedError = false;
  let lines: Line[] = [];
  const over = (state: 'done' | 'broken') => ({
    output: output + (state === 'done' ? 'data: [DONE]\n\n' : ''),
    state,
  });

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
      if (trim(payload) === '[DONE]' && lines.length === 1)
        return over(hasReason || isCounted ? 'done' : 'broken');
      if (trim(payload) !== '') {
        if (!isUtf8(Buffer.from(payload, 'latin1'))) return over('broken');
        const members = membersOf(payload);
        if (members === null) return over('broken');
        if (members.some(({ name, text }) => /^errors?$/.test(name) && tells(JSON.parse(text))))
          return over('broken');
        if (
          !members.some(({ name, text }) => name === 'choices' && Array.isArray(JSON.parse(text)))
        ) {
          const { object, type, usage, success, ...rest } = JSON.parse(payload);
          if ([object, type].some((text) => /(error|exception)$/i.test(`${text}`)))
            return over('broken');
          const faults = Object.keys(rest).filter((name) =>
            /^(err|fault|exception|detail|message$|msg$)/i.test(name),
          );
          if (usage == null && (success === false || faults.some((name) => tells(rest[name]))))
            return over('broken');
        }
        if (generates(members)) isCounted = false;
        else if (countsCompletion(payload)) isCounted = true;
        if (!isChunk(payload)) {
          lines = [];
          size = 0;
          continue;
        }
        if (generates(members)) finished = false; // another choice goes on
        for (const { name, text } of members) {
          const choices = name === 'choices' ? JSON.parse(text) : null;
          for (const choice of Array.isArray(choices) ? choices : []) {
            if (choice !== null && tells(choice.error ?? null)) return over('broken');
            if (typeof choice?.finish_reason === 'string' && choice.finish_reason !== '')
              finished = hasReason = true;
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
  if (lines.length === 1 && trim((lines[0] as Line).data) === '[DONE]')
    return over(hasReason || isCounted ? 'done' : 'broken');
  return over(lines.length === 0 && finished && !cut ? 'done' : 'broken');
}

/** Whether a usage in the event tells tokens of a completion. */
function countsCompletion(payload: string): boolean {
  const { usage, x_groq, choices } = JSON.parse(payload);
  const within = (Array.isArray(choices) ? choices : []).map((choice) => choice?.usage);
  return [usage, x_groq?.usage, ...within].some(
    (told) =>
      typeof told === 'object' &&
      told !== null &&
      (readUsageMembers(told, chatUsage)?.completion ?? 0) > 0,
  );
}

/** Whether the value of an error says that there is one. */
function tells(value: unknown): boolean {
  return !['null', 'false', '0', '""', '[]', '{}'].includes(JSON.stringify(value));
}

/** Whether an event is one of the format. */
function isChunk(payload: string): boolean {
  const event = JSON.parse(payload);
  if (Array.isArray(event.choices) || event.object === 'chat.completion.chunk') return true;
  return !('type' in event) && ('choices' in event || 'model' in event || 'usage' in event);
}

const GENERATED = [
  'content',
  'text',
  'refusal',
  'reasoning_content',
  'reasoning',
  'arguments',
  'input',
  'transcript',
];

/** Whether an event has generated text: below its top level, in what is not removed. */
function generates(members: readonly Span[]): boolean {
  const isIn = (text: string): boolean => {
    if (text.startsWith('[')) return containersIn(text).some((item) => isIn(item.text));
    if (!text.startsWith('{')) return false;
    return (membersOf(text) as Span[]).some(({ name, text }) => {
      if (leaks(name)) return false;
      if (INPUTS.includes(name) && /^[{[]/.test(text)) return text.length > 2;
      return (GENERATED.includes(name) || INPUTS.includes(name)) && text.startsWith('"')
        ? text !== '""'
        : isIn(text);
    });
  };
  return members.some(({ name, text }) => name !== 'usage' && !leaks(name) && isIn(text));
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
      members.push({
        name: JSON.parse(key[0]),
        start: key.index,
        valueStart,
        end,
        text: text.slice(valueStart, end),
      });
      key = null;
    }
  }
  return members;
}

/** Members that are removed: some names of the list, and all that begin or end like others. */
const LEAKS = /^(?:provider|_?hidden_params|headers)$|^(?:provider_|x-|X-)./s;
const LEAKING_ENDS =
  /^(?:[Cc]ost|COST|(?:[Pp]ric|PRIC).)|(?:[Cc]osts?|COSTS?|[Pp]ric(?:es?|ing|e_unit)|PRIC(?:ES?|ING|E_UNIT))$/s;
const LEAKING_IN_USAGE = /[Cc]ost|COST|[Pp]ric|PRIC/;
const leaks = (name: string) => LEAKS.test(name) || LEAKING_ENDS.test(name);
const leaksOnTop = (name: string) => name === 'x_groq' || leaks(name);
/** Members whose objects are generated. */
const INPUTS = ['input', 'arguments', 'parsed'];

/** The objects and arrays in an array's text. */
function containersIn(text: string): { start: number; text: string }[] {
  const found: { start: number; text: string }[] = [];
  let depth = 0;
  let start = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if ('[{'.includes(token) && ++depth === 2) start = index;
    if (']}'.includes(token) && --depth === 1)
      found.push({ start, text: text.slice(start, index + 1) });
  }
  return found;
}

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
  const leave = (
    members: readonly Span[],
    leaks: (name: string) => boolean,
    from: number,
  ): number => {
    let kept = -1;
    for (const [i, { name, start, end }] of members.entries()) {
      if (!leaks(name)) kept = i;
      else if (kept < 0) remove(from + start, from + (members[i + 1]?.start ?? end));
      else remove(payload.indexOf(',', from + (members[i - 1] as Span).end), from + end);
    }
    return kept;
  };
  /** Removes members of a value that begins at `from`, however deep they are. */
  const leaveWithin = (text: string, from: number, isUsage = false): void => {
    if (text.startsWith('['))
      for (const item of containersIn(text)) leaveWithin(item.text, from + item.start, isUsage);
    if (!text.startsWith('{')) return;
    const members = membersOf(text) as Span[];
    const leaksHere = (name: string) =>
      leaks(name) || (isUsage && LEAKING_IN_USAGE.test(name) && !name.endsWith('ns'));
    for (const { name, valueStart, end, text } of members) {
      if (leaksHere(name)) continue;
      if (!INPUTS.includes(name) || isUsage) leaveWithin(text, from + valueStart, isUsage);
      if (!isUsage || name !== 'model' || !text.startsWith('"')) continue;
      remove(from + valueStart, from + end);
      cells[from + valueStart] = slug;
    }
    leave(members, leaksHere, from);
  };
  const kept = leave(members, leaksOnTop, 0);
  for (const member of members) {
    if (leaksOnTop(member.name)) continue;
    if (member.name !== 'model')
      leaveWithin(member.text, member.valueStart, member.name === 'usage');
    else {
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
