import type { Model } from '../domain/model.ts';

/** The names of a model as JSON strings, quotes included. */
export interface ModelNames {
  readonly slug: Buffer;
  readonly upstream: Buffer;
}

/** Each model's literals, made once: companies share what is read of the database. */
export function modelNames(model: Model): ModelNames {
  let literals = made.get(model);
  if (literals === undefined) {
    literals = { slug: quoted(model.slug), upstream: quoted(model.upstream) };
    made.set(model, literals);
  }
  return literals;
}

const made = new WeakMap<Model, ModelNames>();

function quoted(text: string): Buffer {
  return Buffer.from(JSON.stringify(text));
}
