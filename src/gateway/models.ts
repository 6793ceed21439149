import type { Company } from '../domain/company.ts';
import { modelNotFound } from '../domain/errors.ts';
import { listModels } from '../domain/gate.ts';
import type { Restriction } from '../domain/key.ts';
import { modelEntry } from '../domain/model.ts';

/** GET /models (spec sections 2.1 and 4.1) and GET /models/{id}. */

/** The list wrapper with every model the key may use. */
export function renderModels(company: Company, allowed: Restriction['models'], ownedBy: string): Buffer {
  const data = listModels(company, allowed).map((model) => modelEntry(model, ownedBy));
  return Buffer.from(JSON.stringify({ object: 'list', data }));
}

/**
 * One model entry; what the list does not show is not found.
 * @param id as it stands in the path, perhaps URL-encoded
 * @throws GatewayError 404
 */
export function renderModel(company: Company, allowed: Restriction['models'], id: string, ownedBy: string): Buffer {
  const slug = decode(id);
  const model = listModels(company, allowed).find((listed) => listed.slug === slug);
  if (model === undefined) throw modelNotFound(slug);
  return Buffer.from(JSON.stringify(modelEntry(model, ownedBy)));
}

function decode(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
