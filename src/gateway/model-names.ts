import { hiddenBehind } from '../domain/answer-members.ts';
import type { Model } from '../domain/model.ts';
import type { Hidden } from '../json/hidden.ts';
import { type Member, type Members, memberNamed } from '../json/members.ts';
import type { Edit } from '../json/splice.ts';

/** The names of a model as JSON strings, quotes included. */
interface ModelNames {
  readonly slug: Buffer;
  readonly upstream: Buffer;
}

const made = new WeakMap<Model, ModelNames>();
const hidden = new WeakMap<readonly string[], WeakMap<Model, Hidden>>();

/** The names of a model, made once per model: companies share the models read from the database. */
export function modelNames(model: Model): ModelNames {
  let names = made.get(model);
  if (names === undefined) {
    names = { slug: quoted(model.slug), upstream: quoted(model.upstream) };
    made.set(model, names);
  }
  return names;
}

/**
 * What no answer of a model may hold, made once for each.
 * @param secrets of the upstream, always the same array
 */
export function hiddenOf(model: Model, secrets: readonly string[]): Hidden {
  let ofUpstream = hidden.get(secrets);
  if (ofUpstream === undefined) {
    ofUpstream = new WeakMap();
    hidden.set(secrets, ofUpstream);
  }
  let found = ofUpstream.get(model);
  if (found === undefined) {
    found = hiddenBehind(model, secrets);
    ofUpstream.set(model, found);
  }
  return found;
}

/** The slug becomes the internal model identifier (spec section 1, rule 2). */
export function modelEdit(members: Members, model: Model): Edit {
  const { valueStart, valueEnd } = memberNamed(members, 'model') as Member;
  return { start: valueStart, end: valueEnd, bytes: modelNames(model).upstream };
}

function quoted(text: string): Buffer {
  return Buffer.from(JSON.stringify(text));
}
