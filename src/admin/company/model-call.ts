import type { IncomingMessage } from 'node:http';
import type { Company } from '../../domain/company.ts';
import { listModels, type ModelState, modelState } from '../../domain/gate.ts';
import type { PageContext } from '../page/context.ts';
import { type Choices, type FormState, select } from '../page/field.ts';
import type { Html } from '../page/html.ts';
import { bookedCall } from './api-client.ts';

/** Parts that the playground and the runs of assistants share. */

/** Members of a route whose form is a prompt for a model. */
export const MODEL_CALL = { savesNothing: true, long: true } as const;

/** Names of models that are not offered, for each reason. */
const MOST_NAMES = 5;
const REASONS = { blocked: 'blocked by the EU gate', disabled: 'disabled' } as const satisfies Partial<
  Record<ModelState, string>
>;

/** Slugs of the chat models that a company may call. */
export function callableSlugs(company: Company): string[] {
  return listModels(company).flatMap(({ slug, kind }) => (kind === 'chat' ? [slug] : []));
}

/** A choice of the chat models that a company may call. Its hint says which others there are, and why they are missing. */
export function modelPicker(
  company: Company,
  state: FormState,
  spec: { readonly name: string; readonly value: string; readonly before?: Choices },
): Html {
  const { name, value, before = [] } = spec;
  const choices = [...before, ...callableSlugs(company).map((slug) => [slug, slug] as const)];
  const hint = missingModels(company);
  return select(state, { name, label: 'Model', choices, value, ...(hint === '' ? {} : { hint }) });
}

/** Empty when the company may call all. */
export function missingModels(company: Company): string {
  const models = [...company.sharedModels, ...company.ownModels].filter(([, { kind }]) => kind === 'chat');
  const slugs = [...new Set(models.map(([slug]) => slug))].sort();
  const texts = Object.entries(REASONS).flatMap(([state, why]) => {
    const all = slugs.filter((slug) => modelState(company, slug, false) === state);
    const more = all.length > MOST_NAMES ? ` and ${all.length - MOST_NAMES} more` : '';
    return all.length === 0 ? [] : [`${all.slice(0, MOST_NAMES).join(', ')}${more} (${why})`];
  });
  return texts.length === 0 ? '' : `Not offered: ${texts.join('; ')}.`;
}

export function requestIdOf({ headers }: IncomingMessage): string {
  return String(headers['x-request-id']);
}

/** The usage, cost and id of a call, in words. @param isRefused it used nothing */
export async function figuresOf(c: PageContext, id: string, isRefused: boolean): Promise<string> {
  const call = isRefused ? null : await bookedCall(c, id);
  if (call === null) return `Nothing is booked. x-request-id ${id}`;
  const { format } = c.var;
  const counted = call.usage_source === 'estimated' ? ', estimated by Tollgate' : '';
  return `${call.outcome}: ${format.count(call.prompt_tokens)} tokens in, ${format.count(call.completion_tokens)} out${counted}, ${format.eurText(call.cost_eur)}. x-request-id ${id}`;
}
