import type { Model } from '../../domain/model.ts';
import { hiddenBehind } from '../../domain/request/answer-members.ts';
import type { Hidden } from '../../json/hidden.ts';
import { type Member, type Members, memberNamed } from '../../json/members.ts';
import type { Edit } from '../../json/splice.ts';

export interface ModelNames {
  /** The names as JSON strings, quotes included. */
  readonly slug: Buffer;
  readonly upstream: Buffer;
  /** What no answer of the model may hold. */
  readonly hidden: Hidden;
}

/** The names of models, made once for each: companies share the models read from the database. */
export class Names {
  readonly #made = new WeakMap<Model, ModelNames>();
  readonly #secrets: readonly string[];

  /** @param secrets of the upstream */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets;
  }

  of(model: Model): ModelNames {
    let names = this.#made.get(model);
    if (names === undefined) {
      const [slug, upstream] = [quoted(model.slug), quoted(model.upstream)];
      names = { slug, upstream, hidden: hiddenBehind(model, this.#secrets) };
      this.#made.set(model, names);
    }
    return names;
  }
}

/**
 * The slug becomes the internal model identifier (spec section 1, rule 2).
 * @param name the identifier as a JSON string
 */
export function modelEdit(members: Members, name: Buffer): Edit {
  const { valueStart, valueEnd } = memberNamed(members, 'model') as Member;
  return { start: valueStart, end: valueEnd, bytes: name };
}

function quoted(text: string): Buffer {
  return Buffer.from(JSON.stringify(text));
}
