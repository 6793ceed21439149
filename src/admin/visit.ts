import { FieldError, type Read } from '../domain/field.ts';
import { actingAs } from '../store/actor.ts';
import type { Sql } from '../store/database.ts';
import type { SessionRow } from '../store/session.ts';
import { enterCompany, within } from '../store/tenant-role.ts';
import type { Format } from './format.ts';
import type { Hasher } from './hasher.ts';
import type { Html } from './html.ts';
import type { Action } from './permission.ts';
import type { AdminServices } from './services.ts';

const READ_MS = 5000;
const CHANGE_MS = 5000;

/** One request of somebody signed in, who may do what its route says. */
export interface Visit {
  readonly services: AdminServices;
  readonly person: SessionRow;
  /** SHA-256 of the session's token. */
  readonly session: Buffer;
  /** To be sent with every form; bound to the session. */
  readonly csrf: string;
  readonly format: Format;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Identifiers of the path, by their names in the route; ids are well-formed, in lower case. */
  readonly params: Readonly<Record<string, string>>;
  /** What was sent; empty for GET. */
  readonly form: Form;
  /** Whatever hashes a password goes through here. */
  readonly hashing: Hasher;
}

export interface Route {
  readonly method: 'GET' | 'POST';
  /** Segments, of which ":name" takes an id. ":company" is the company the action is about. */
  readonly path: string;
  /** What a visitor must be permitted to do; see permission.ts. */
  readonly action: Action;
  /** It may take long for reasons of others: it keeps no place from pages. */
  readonly slow?: true;
  handle(visit: Visit): Promise<Reply>;
  /** The page a form stands on: shown again, with what was typed, when the form is refused. */
  page?(visit: Visit, problem: Problem): Promise<Reply>;
}

export type Reply =
  | { readonly kind: 'page'; readonly title: string; readonly body: Html; readonly status?: number }
  | { readonly kind: 'redirect'; readonly to: string; readonly signOut?: true }
  /** Bytes as they come; who leaves early ends the source. */
  | {
      readonly kind: 'download';
      readonly name: string;
      send(write: (bytes: Buffer) => Promise<boolean>): Promise<void>;
    };

/** Why a form was refused, and what was in it. */
export interface Problem {
  /** Sentences by field name; '' for the form as a whole. */
  readonly messages: Readonly<Record<string, string>>;
  readonly values: URLSearchParams;
  /** The form it came from: the path it was sent to. */
  readonly path: string;
}

/** A form with mistakes, all of them. */
export class FormRefused extends Error {
  override readonly name = 'FormRefused';
  readonly messages: Readonly<Record<string, string>>;
  constructor(messages: Readonly<Record<string, string>>) {
    super(Object.values(messages).join(' '));
    this.messages = messages;
  }
}

/** There is nothing at this address, or nothing for this visitor. */
export class NotFound extends Error {
  override readonly name = 'NotFound';
}

/** What a form sent. Readers note mistakes; `check` throws them together. */
export class Form {
  readonly values: URLSearchParams;
  readonly #messages: Record<string, string> = {};

  constructor(values: URLSearchParams) {
    this.values = values;
  }

  /** A field that must be filled in. */
  required<T>(name: string, read: Read<T>): T {
    const text = this.values.get(name) ?? '';
    if (text === '') this.refuse(name, 'is missing.');
    return this.#read(name, text, read) as T; // a mistake throws in `check`, before the value is used
  }

  /** A field that may stay empty: null then. */
  optional<T>(name: string, read: Read<T>): T | null {
    const text = this.values.get(name) ?? '';
    return text === '' ? null : (this.#read(name, text, read) as T);
  }

  /** Every value of a field. */
  all<T>(name: string, read: Read<T>): T[] {
    return this.values.getAll(name).map((text) => this.#read(name, text, read) as T);
  }

  checked(name: string): boolean {
    return this.values.get(name) === 'true';
  }

  refuse(name: string, message: string): void {
    this.#messages[name] ??= message;
  }

  /** @throws FormRefused when anything was wrong */
  check(): void {
    if (Object.keys(this.#messages).length > 0) throw new FormRefused(this.#messages);
  }

  #read<T>(name: string, text: string, read: Read<T>): T | undefined {
    try {
      // browsers write line ends as CRLF
      return read(text.replaceAll('\r\n', '\n'));
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.refuse(name, `${error.message}.`);
      return undefined;
    }
  }
}

/** Reads what a page shows; of a company's page, behind the wall between companies. */
export function read<T>(visit: Visit, query: (sql: Sql) => PromiseLike<T>, deadlineMs = READ_MS): Promise<T> {
  const { services, params } = visit;
  if (params.company === undefined) return services.db.run(deadlineMs, query);
  return within(services.db, params.company, deadlineMs, query);
}

/** Changes something on behalf of the visitor, whom the audit log names. All or nothing; walled as `read` is. */
export function change<T>(visit: Visit, work: (sql: Sql) => PromiseLike<T>): Promise<T> {
  const { services, params, person } = visit;
  return actingAs(services.db, person.email, CHANGE_MS, async (sql) => {
    if (params.company !== undefined) await enterCompany(sql, params.company);
    return work(sql);
  });
}

/** An identifier of the path that the route promises. */
export function param(visit: Visit, name: string): string {
  return visit.params[name] as string;
}

export function redirect(to: string): Reply {
  return { kind: 'redirect', to };
}
