import { type Document, LineCounter, parseDocument, type YAMLError } from 'yaml';
import { mistakesIn, type Validator } from '../../admin/api/check.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import { Failure } from '../frame/command.ts';
import { CONFIGURATION, type Wanted } from './schema.ts';
import * as validators from './validators.generated.ts';

const isWanted = validators.configuration as Validator;

/** A file that was read. */
export interface WantedFile {
  readonly wanted: Wanted;
  /**
   * A mistake in it, where it stands: "file.yml:3:5: companies[0].name must be …".
   * @param pointer a JSON Pointer without "#", such as "/companies/0/name"
   */
  mistake(pointer: string, detail: string): string;
}

/**
 * Reads YAML 1.2, of which JSON is a part.
 * @param name the file's name, for messages
 * @throws Failure all that is wrong with its form
 */
export function readWanted(text: string, name: string): WantedFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true });
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${name}:${line}:${col}`;
  };
  const mistake = (pointer: string, detail: string): string =>
    `${at(offsetOf(document, pointer))}: ${pathOf(pointer)} ${detail}`;
  // a warning is a tag of another program, such as "!env NAME", which would be taken as the text NAME
  const faults = [...document.errors, ...document.warnings];
  if (text.trim() === '') throw new Failure(`${name} is empty`); // what should have written it failed
  if (faults.length > 0) {
    throw new Failure(...faults.map((fault) => `${at(fault.pos[0])}: ${wordsOf(fault)}`));
  }
  const wanted = contentOf(document, name);
  const mistakes = mistakesIn(wanted, isWanted, CONFIGURATION);
  if (mistakes.length > 0) {
    const told = mistakes.map(({ pointer, detail }) => ({ pointer: pointer.slice(1), detail }));
    told.sort((one, other) => offsetOf(document, one.pointer) - offsetOf(document, other.pointer));
    throw new Failure(...told.map(({ pointer, detail }) => mistake(pointer, detail)));
  }
  return { wanted: inOneSpelling(wanted as Wanted), mistake };
}

/** With the names of companies and of their things as the database has them; those of groups are the provider's. */
function inOneSpelling(wanted: Wanted): Wanted {
  const spelled = <T extends { readonly name: string }>(all: readonly T[]) =>
    all.map((each) => ({ ...each, name: nameSpelling(each.name) }));
  const companies = spelled(wanted.companies ?? []).map((company) => ({
    ...company,
    ...(company.keys && { keys: spelled(company.keys) }),
    ...(company.assistants && { assistants: spelled(company.assistants) }),
  }));
  return { ...wanted, companies };
}

/** The first line of what the parser says, without the place, which is told before it. The other lines quote the file. */
function wordsOf({ code, message }: YAMLError): string {
  if (code === 'MULTIPLE_DOCS') return 'a second document begins here: apply takes one'; // it names its own functions
  return (message.split('\n', 1)[0] as string).replace(/ at line \d+, column \d+:$/, '');
}

/** @throws Failure for an alias of nothing, or too many of them */
function contentOf(document: Document, name: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 }) ?? {};
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    throw new Failure(`${name}: ${error.message}`);
  }
}

/** "companies[0].name" of "/companies/0/name". */
function pathOf(pointer: string): string {
  const path = pointer.slice(1).replaceAll(/\/(\d+)(?=\/|$)/g, '[$1]');
  return path.replaceAll('/', '.') || 'the file';
}

/** Where a member stands, or the nearest thing around it that is there. */
function offsetOf(document: Document, pointer: string): number {
  const path = pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  for (let length = path.length; length >= 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as
      | { range?: readonly number[] }
      | undefined;
    if (node?.range !== undefined) return node.range[0] as number;
  }
  return 0;
}
