/** What operators and administrators keep records of. */
export type Noun = 'company' | 'model' | 'key' | 'assistant' | 'user';

/**
 * An operation that was well asked for and that the state of things refuses. Nothing has
 * changed. The message is one sentence for the person who asked.
 */
export class RefusedChange extends Error {
  override readonly name = 'RefusedChange';
  readonly reason: 'not_found' | 'conflict';
  /** What was not found, or what is in the way. */
  readonly noun: Noun;

  constructor(reason: 'not_found' | 'conflict', noun: Noun, message: string) {
    super(message);
    this.reason = reason;
    this.noun = noun;
  }
}
