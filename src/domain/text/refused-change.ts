import type { Noun, Refusal } from '../input/refusal.ts';

/**
 * A valid operation that the present data do not allow. Nothing has changed. The message is one
 * sentence for the person who asked.
 */
export class RefusedChange extends Error {
  override readonly name = 'RefusedChange';
  readonly reason: 'not_found' | 'conflict';
  /** The thing that was not found, or that conflicts. */
  readonly noun: Noun;

  /** What a page says in the language of its reader; null: the message is for operators and programs alone. */
  readonly refusal: Refusal | null;

  constructor(reason: 'not_found' | 'conflict', noun: Noun, message: string | Refusal) {
    super(typeof message === 'string' ? message : message.text);
    this.reason = reason;
    this.noun = noun;
    this.refusal = typeof message === 'string' ? null : message;
  }
}

export function throwNotFound(noun: Noun, message = `There is no such ${noun}.`): never {
  throw new RefusedChange('not_found', noun, message);
}

export function throwConflict(noun: Noun, message: string | Refusal): never {
  throw new RefusedChange('conflict', noun, message);
}

export function unknownCompany(id: string): never {
  throwNotFound('company', `There is no company ${id}.`);
}
