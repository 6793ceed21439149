import type { HttpBindings } from '@hono/node-server';
import type { HonoRequest } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { FieldError, type Read } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { fieldText } from '../../domain/language/refusal-text.ts';
import { refusal } from '../../domain/refusal.ts';
import type { Format } from './format.ts';
import { FALLBACK, knownLanguage, pageLanguage } from './locale.ts';
import { numeric } from './number-text.ts';

/** As many models as one form offers, or as many rates as a model may have, and what else such a form has. */
const MAX_FIELDS = 2000;
/** Fields that hold for one request only; see csrfInput, confirmation.ts and src/admin/resume-after-sign-in.ts. */
const ONE_REQUEST = [
  'csrf',
  'step',
  'sign-in.email',
  'sign-in.password',
  'sign-in.code',
  'sign-in.recovery',
];

/** Node's request and response; `rawBody` is the whole body, empty for GET. */
export type FormBindings = HttpBindings & { readonly incoming: { readonly rawBody: Buffer } };

type FormRequest = {
  readonly req: HonoRequest;
  readonly env: FormBindings;
  readonly var: { readonly format: Format };
};

/** A form was refused. Its `Form` has the messages. */
export class FormRefused extends Error {
  override readonly name = 'FormRefused';
}

/** The fields of a form that was sent. Reading collects mistakes; `check` throws when there are any. */
export class Form {
  readonly values: URLSearchParams;
  /** The path it was sent to; null when nothing was sent. */
  readonly path: string | null;
  /** The reader (locale.ts) when the form was shown, by its field `language`: its numbers are written for that reader. */
  readonly language: string;
  /** The language in which it says what is wrong. */
  readonly words: Words;
  /** Shown again as it was typed, without having been tried. */
  isResumed = false;
  readonly #messages = new Map<string, string>();

  /** @param language of the reader now */
  constructor(
    values: URLSearchParams = new URLSearchParams(),
    path: string | null = null,
    language = FALLBACK,
  ) {
    this.values = values;
    this.path = path;
    this.language = knownLanguage(values.get('language') ?? '') ?? language;
    this.words = wordsOf(pageLanguage(this.language));
  }

  /** One sentence for each refused field, by its name; '' for the form as a whole. */
  get messages(): ReadonlyMap<string, string> {
    return this.#messages;
  }

  /** A field that must be filled in. The result is undefined after a mistake, until `check` throws. */
  required<T>(name: string, read: Read<T>): T {
    const text = this.values.get(name) ?? '';
    if (text === '') this.refuse(name, this.words.form.missing);
    return this.#read(name, text, read) as T;
  }

  /** A field that may be empty: null then, and after a mistake. */
  optional<T>(name: string, read: Read<T>): T | null {
    const text = this.values.get(name) ?? '';
    return text === '' ? null : (this.#read(name, text, read) ?? null);
  }

  /** Names and values to send again: all but passwords, keys, and fields of one request alone. */
  get kept(): [string, string][] {
    const dropped = new Set([...ONE_REQUEST, ...this.values.getAll('secret')]);
    return [...this.values].filter(([name]) => !dropped.has(name));
  }

  /** Whether the user answered a question about this form (confirmation.ts). */
  confirms(answer: string): boolean {
    return this.values.getAll('confirmed').includes(answer);
  }

  /** Every value of a field. */
  all<T>(name: string, read: Read<T>): T[] {
    return this.values.getAll(name).map((text) => this.#read(name, text, read) as T);
  }

  /** For fields with numbers: lets people write them as the page and their own language do. */
  numeric<T>(read: Read<T>): Read<T> {
    return numeric(this.language, read);
  }

  checked(name: string): boolean {
    return this.values.get(name) === 'true';
  }

  /** Notes a mistake. The first one of a field is kept. */
  refuse(name: string, message: string): void {
    if (!this.#messages.has(name)) this.#messages.set(name, message);
  }

  /** @throws FormRefused when there was any mistake */
  check(): void {
    if (this.#messages.size > 0) throw new FormRefused([...this.#messages.values()].join(' '));
  }

  /** What several fields say together. A mistake is noted at one of them, and the result undefined. */
  attempt<T>(name: string, make: () => T): T | undefined {
    try {
      return make();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.refuse(name, `${fieldText(this.words, error)}.`);
      return undefined;
    }
  }

  #read<T>(name: string, text: string, read: Read<T>): T | undefined {
    return this.attempt(name, () => {
      if (text.includes('\0')) throw new FieldError(refusal('nul')); // the database stores none
      return read(text.replaceAll('\r\n', '\n')); // browsers send line ends as CRLF
    });
  }
}

/** The form of a request. @throws HTTPException 415 for anything but a form, 413 for a large one or too many fields */
export function readForm(c: FormRequest, maxBytes: number): Form {
  if (!/^application\/x-www-form-urlencoded\b/i.test(c.req.header('content-type') ?? '')) {
    throw new HTTPException(415, { message: c.var.format.words.errors.formType });
  }
  const { rawBody } = c.env.incoming;
  const text = rawBody.toString();
  // fields are counted before they are parsed, which takes 6 µs each
  if (rawBody.length > maxBytes || text.split('&', MAX_FIELDS + 1).length > MAX_FIELDS) {
    throw new HTTPException(413, { message: c.var.format.words.errors.formTooLarge });
  }
  return new Form(new URLSearchParams(text), c.req.path, c.var.format.language);
}
