/** The things that administrators manage. */
export type Noun =
  | 'company'
  | 'model'
  | 'price'
  | 'key'
  | 'assistant'
  | 'user'
  | 'invitation'
  | 'alert'
  | 'receiver'
  | 'event'
  | 'token'
  | 'statement'
  | 'gateway';

/**
 * A valid operation that the present data do not allow. Nothing has changed. The message is one
 * sentence for the person who asked.
 */
export class RefusedChange extends Error {
  override readonly name = 'RefusedChange';
  readonly reason: 'not_found' | 'conflict';
  /** The thing that was not found, or that conflicts. */
  readonly noun: Noun;

  constructor(reason: 'not_found' | 'conflict', noun: Noun, message: string) {
    super(message);
    this.reason = reason;
    this.noun = noun;
  }
}

export function throwNotFound(noun: Noun, message = `There is no such ${noun}.`): never {
  throw new RefusedChange('not_found', noun, message);
}

export function throwConflict(noun: Noun, message: string): never {
  throw new RefusedChange('conflict', noun, message);
}

export function unknownCompany(id: string): never {
  throwNotFound('company', `There is no company ${id}.`);
}
