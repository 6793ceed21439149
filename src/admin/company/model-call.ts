import type { IncomingMessage } from 'node:http';
import type { Company } from '../../domain/company.ts';
import { listModels, type ModelState, modelState } from '../../domain/gate.ts';
import type { Words } from '../../domain/language/en.ts';
import type { PageContext } from '../page/context.ts';
import { type Choices, type FormState, select } from '../page/field.ts';
import type { Html } from '../page/html.ts';
import { bookedCall } from './api-client.ts';

/** Parts that the playground and the runs of assistants share. */

/** Members of a route whose form is a prompt for a model. */
export const MODEL_CALL = { savesNothing: true, long: true } as const;

/** Names of models that are not offered, for each reason. */
const MOST_NAMES = 5;
const REASONS = ['blocked', 'disabled'] as const satisfies readonly ModelState[];

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
  const { playground: words } = state.words;
  const hint = missingModels(words, company);
  return select(state, { name, label: words.model, choices, value, ...(hint === '' ? {} : { hint }) });
}

/** Empty when the company may call all. */
export function missingModels(words: Words['playground'], company: Company): string {
  const models = [...company.sharedModels, ...company.ownModels].filter(([, { kind }]) => kind === 'chat');
  const slugs = [...new Set(models.map(([slug]) => slug))].sort();
  const texts = REASONS.flatMap((state) => {
    const all = slugs.filter((slug) => modelState(company, slug, false) === state);
    const more = all.length > MOST_NAMES ? words.more(all.length - MOST_NAMES) : '';
    return all.length === 0 ? [] : [`${all.slice(0, MOST_NAMES).join(', ')}${more} (${words[state]})`];
  });
  return texts.length === 0 ? '' : words.notOffered(texts.join('; '));
}

export function requestIdOf({ headers }: IncomingMessage): string {
  return String(headers['x-request-id']);
}

/** The usage, cost and id of a call, in words. @param isRefused it used nothing */
export async function figuresOf(c: PageContext, id: string, isRefused: boolean): Promise<string> {
  const call = isRefused ? null : await bookedCall(c, id);
  const { format } = c.var;
  const { playground: words } = format.words;
  if (call === null) return `${words.nothing} x-request-id ${id}`;
  const figures = words.figures({
    outcome: call.outcome,
    input: format.count(call.prompt_tokens),
    output: format.count(call.completion_tokens),
    isEstimated: call.usage_source === 'estimated',
    by: format.brand,
    cost: format.eurText(call.cost_eur),
  });
  return `${figures} x-request-id ${id}`;
}
