import { stringify } from 'yaml';

/**
 * Renders the part of Helm's template language in which the chart is written: if, else, with, range, define, include,
 * fields and variables, pipes, and the functions below. Anything else is an error, so the templates stay this plain.
 */

type Scope = { readonly dot: unknown; readonly variables: ReadonlyMap<string, unknown> };
type Piece =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly code: string }
  | {
      readonly kind: 'block';
      readonly word: string;
      readonly code: string;
      readonly body: Piece[];
      readonly otherwise: Piece[];
    };

const ACTION = /\{\{(-?)\s*([\s\S]*?)\s*(-?)\}\}/g;
const TOKEN = /"(?:[^"\\]|\\.)*"|\d+|\||[$.\w]+/g;

const FUNCTIONS: Readonly<Record<string, (...values: never[]) => unknown>> = {
  not: (value: unknown) => !isTrue(value),
  default: (fallback: unknown, value: unknown) => (isTrue(value) ? value : fallback),
  fail: (message: string) => {
    throw new Error(message);
  },
  gt: (a: number, b: number) => a > b,
  int: (value: unknown) => Math.trunc(Number(value)),
  sub: (a: number, b: number) => a - b,
  eq: (a: unknown, b: unknown) => a === b,
  merge: (first: object, second: object) => ({ ...second, ...first }),
  replace: (old: string, by: string, text: string) => text.replaceAll(old, by),
  trunc: (length: number, text: string) => text.slice(0, length),
  trimSuffix: (suffix: string, text: string) =>
    text.endsWith(suffix) ? text.slice(0, -suffix.length) : text,
  add: (...values: number[]) => values.reduce((sum, value) => sum + value),
  quote: (value: unknown) => JSON.stringify(String(value)),
  toYaml: (value: unknown) => stringify(value, { lineWidth: 0 }).trimEnd(),
  nindent: (spaces: number, text: string) => `\n${text.replace(/^(?=.)/gm, ' '.repeat(spaces))}`,
  printf: (format: string, ...values: unknown[]) =>
    format.replace(/%s/g, () => String(values.shift())),
};

/** @param files texts of templates, by name. @returns the text of each file that is no list of definitions */
export function render(
  files: Readonly<Record<string, string>>,
  root: object,
): Record<string, string> {
  const definitions = new Map<string, Piece[]>();
  const scope: Scope = { dot: root, variables: new Map([['$', root]]) };
  const parsed = Object.entries(files).map(
    ([name, text]) => [name, parse(text, definitions)] as const,
  );
  const include = (name: string, dot: unknown): string => {
    const pieces = definitions.get(name);
    if (pieces === undefined) throw new Error(`nothing defines ${name}`);
    return write(pieces, { dot, variables: new Map([['$', dot]]) }, include);
  };
  return Object.fromEntries(
    parsed
      .filter(([name]) => name.endsWith('.yaml'))
      .map(([name, pieces]) => [name, write(pieces, scope, include)]),
  );
}

function parse(text: string, definitions: Map<string, Piece[]>): Piece[] {
  const top: Piece[] = [];
  const open: { pieces: Piece[]; block?: Piece & { kind: 'block' } }[] = [{ pieces: top }];
  const here = () => open.at(-1) as (typeof open)[number];
  let from = 0;
  let trims = false;
  const addText = (until: number, trimsEnd: boolean): void => {
    let part = text.slice(from, until);
    if (trims) part = part.trimStart();
    if (trimsEnd) part = part.trimEnd();
    here().pieces.push({ kind: 'text', text: part });
  };
  for (const match of text.matchAll(ACTION)) {
    const [whole, before, action = '', after] = match;
    addText(match.index, before === '-');
    from = match.index + whole.length;
    trims = after === '-';
    const [, word = '', code = ''] =
      /^(if|with|range|define|else|end)?\s*([\s\S]*)$/.exec(action) ?? [];
    if (word === '') here().pieces.push({ kind: 'print', code });
    else if (word === 'end') {
      const { block } = open.pop() as (typeof open)[number];
      if (block?.word === 'define') definitions.set(JSON.parse(block.code), block.body);
    } else if (word === 'else') {
      const { block } = here();
      if (block === undefined || code !== '') throw new Error(`not understood: ${whole}`);
      here().pieces = block.otherwise;
    } else {
      const block = { kind: 'block' as const, word, code, body: [], otherwise: [] };
      if (word !== 'define') here().pieces.push(block);
      open.push({ pieces: block.body, block });
    }
  }
  addText(text.length, false);
  if (open.length !== 1) throw new Error('a block has no end');
  return top;
}

function write(
  pieces: readonly Piece[],
  scope: Scope,
  include: (name: string, dot: unknown) => string,
): string {
  const { dot, variables } = scope;
  return pieces
    .map((piece) => {
      if (piece.kind === 'text') return piece.text;
      if (piece.kind === 'print') return String(evaluate(piece.code, scope, include));
      const { word, code, body, otherwise } = piece;
      if (word === 'range') {
        const [, key = '', name = '', list = ''] = /^(\$\w+), (\$\w+) := (.*)$/.exec(code) ?? [];
        const entries = Object.entries(evaluate(list, scope, include) as object).sort(([a], [b]) =>
          a < b ? -1 : 1,
        );
        return entries
          .map(([k, value]) =>
            write(
              body,
              { dot: value, variables: new Map([...variables, [key, k], [name, value]]) },
              include,
            ),
          )
          .join('');
      }
      const value = evaluate(code, scope, include);
      if (!isTrue(value)) return write(otherwise, scope, include);
      return write(body, word === 'with' ? { dot: value, variables } : { dot, variables }, include);
    })
    .join('');
}

function evaluate(
  code: string,
  scope: Scope,
  include: (name: string, dot: unknown) => string,
): unknown {
  if (code.replace(TOKEN, '').trim() !== '') throw new Error(`not understood: ${code}`);
  let piped: unknown[] = [];
  for (const part of code.split(/\|(?=(?:[^"]*"[^"]*")*[^"]*$)/)) {
    const [head = '', ...rest] = part.match(TOKEN) ?? [];
    const values = [...rest.map((token) => lookUp(token, scope)), ...piped];
    if (head === 'include') piped = [include(values[0] as string, values[1])];
    else if (Object.hasOwn(FUNCTIONS, head)) piped = [FUNCTIONS[head]?.(...(values as never[]))];
    else if (values.length === 0) piped = [lookUp(head, scope)];
    else throw new Error(`not understood: ${code}`);
  }
  return piped[0];
}

function lookUp(token: string, { dot, variables }: Scope): unknown {
  if (/^["\d]/.test(token)) return JSON.parse(token);
  const [first = '', ...names] = token.split('.');
  if (first !== '' && !variables.has(first)) throw new Error(`not understood: ${token}`);
  let value = first === '' ? dot : variables.get(first);
  for (const name of names.filter((each) => each !== '')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) {
      throw new Error(`${token}: there is no ${name}`); // Helm prints nothing: a misspelt value would go unnoticed
    }
    value = value[name as never];
  }
  return value;
}

function isTrue(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}
