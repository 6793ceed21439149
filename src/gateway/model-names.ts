import type { Model } from '../domain/model.ts';

/** The names of a model as JSON strings, quotes included. */
export interface ModelNames {
  readonly slug: Buffer;
  readonly upstream: Buffer;
}

const made = new WeakMap<Model, ModelNames>();

/** The names of a model, made once for each: companies share the models that were read from the database. */
export function modelNames(model: Model): ModelNames {
  let names = made.get(model);
  if (names === undefined) {
    names = { slug: quoted(model.slug), upstream: quoted(model.upstream) };
    made.set(model, names);
  }
  return names;
}

function quoted(text: string): Buffer {
  return Buffer.from(JSON.stringify(text));
}
