import { modelNotFound } from '../../domain/errors.ts';
import { listModels } from '../../domain/gate.ts';
import { modelEntry } from '../../domain/model.ts';
import type { Lookup } from './call.ts';

/** GET /models (spec sections 2.1 and 4.1): every model that the key may use. */
export const modelList: Lookup = {
  name: 'models',
  render({ settings }, { restriction }, company) {
    const data = listModels(company, restriction?.models ?? null).map((model) =>
      modelEntry(model, settings.ownedBy),
    );
    return Buffer.from(JSON.stringify({ object: 'list', data }));
  },
};

/** GET /models/{model}: one entry of that list; what the list does not show is not found. */
export const oneModel: Lookup = {
  name: 'models',
  render({ settings }, { restriction }, company, id) {
    const slug = decode(id);
    const model = listModels(company, restriction?.models ?? null).find(
      (listed) => listed.slug === slug,
    );
    if (model === undefined) throw modelNotFound(slug);
    return Buffer.from(JSON.stringify(modelEntry(model, settings.ownedBy)));
  },
};

function decode(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
