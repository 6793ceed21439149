import { MOST } from '../field.ts';
import type { SIZES } from './model.ts';
import type { Values } from './setting.ts';

/** How much a model takes and generates, in tokens; what is not told is absent, or null. */
export type ModelSizes = Partial<Values<typeof SIZES>>;

/** Members in which routers and engines tell it, by the setting; of several the first counts. */
const TOLD = {
  context_length: [
    'context_length',
    'max_model_len',
    'context_window',
    'max_context_length',
    'max_input_tokens',
  ],
  max_output_tokens: ['max_output_tokens', 'max_completion_tokens'],
} as const satisfies Readonly<Record<keyof ModelSizes, readonly string[]>>;

/** What an entry of a router's list tells, or an object in it. @param others of the same name: the smaller size counts */
export function sizesIn(entry: unknown, others: ModelSizes = {}): ModelSizes {
  if (typeof entry !== 'object' || entry === null) return others;
  const members: Readonly<Record<string, unknown>> = {
    ...(entry as { top_provider?: object }).top_provider,
    ...entry,
  };
  const sizes: Record<string, number> = {};
  for (const [size, names] of Object.entries(TOLD)) {
    const tokens = names.map((name) => members[name]).find(isTokens);
    const least = Math.min(
      tokens ?? Number.POSITIVE_INFINITY,
      others[size as keyof ModelSizes] ?? Number.POSITIVE_INFINITY,
    );
    if (least <= MOST.modelTokens) sizes[size] = least;
  }
  return sizes;
}

function isTokens(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MOST.modelTokens;
}
