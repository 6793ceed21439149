import type { PartName, UsageDetails } from '../../json/usage-counts.ts';

/**
 * The parts of a cost, in the order of statements: each is a number of units × a price per 1000 of them. One row a part,
 * from which follow prices, the ledger's columns and formula, lines of statements and pages (contract section 4).
 */
interface Part {
  /** The count that its units are within; null: it is charged beside tokens. */
  readonly within: 'prompt' | 'completion' | null;
  /** The count that an upstream tells of it; null: the rest of what it is within, or the call itself. */
  readonly count: PartName | null;
  /** The column of the ledger, and the member of an answer, that has this count. */
  readonly column: string | null;
  /** The part whose price its units cost where it has none; null: they cost nothing. */
  readonly instead: CostPart | null;
  /** What LiteLLM's public format calls the price of one unit. */
  readonly catalogue: string;
}

/** Units that an upstream told apart; null: not told, which counts as 0. */
export type PartCounts = Omit<UsageDetails, 'cost'>;

// biome-ignore format: a table
export const PARTS = {
  input:          { within: 'prompt', count: null, column: null, instead: null, catalogue: 'input_cost_per_token' },
  cache_read:     { within: 'prompt', count: 'cached', column: 'cached_tokens', instead: 'input', catalogue: 'cache_read_input_token_cost' },
  cache_write:    { within: 'prompt', count: 'cacheWrite', column: 'cache_write_tokens', instead: 'input', catalogue: 'cache_creation_input_token_cost' },
  cache_write_1h: { within: 'prompt', count: 'cacheWriteHour', column: 'cache_write_1h_tokens', instead: 'cache_write', catalogue: 'cache_creation_input_token_cost_above_1hr' },
  audio_input:    { within: 'prompt', count: 'audioPrompt', column: 'audio_prompt_tokens', instead: 'input', catalogue: 'input_cost_per_audio_token' },
  image_input:    { within: 'prompt', count: 'imagePrompt', column: 'image_prompt_tokens', instead: 'input', catalogue: 'input_cost_per_image_token' },
  output:         { within: 'completion', count: null, column: null, instead: null, catalogue: 'output_cost_per_token' },
  reasoning:      { within: 'completion', count: 'reasoning', column: 'reasoning_tokens', instead: 'output', catalogue: 'output_cost_per_reasoning_token' },
  audio_output:   { within: 'completion', count: 'audioCompletion', column: 'audio_completion_tokens', instead: 'output', catalogue: 'output_cost_per_audio_token' },
  image_output:   { within: 'completion', count: 'imageCompletion', column: 'image_completion_tokens', instead: 'output', catalogue: 'output_cost_per_image_token' },
  search_unit:    { within: null, count: 'searchUnits', column: 'search_units', instead: null, catalogue: 'input_cost_per_query' },
  request:        { within: null, count: null, column: null, instead: null, catalogue: 'input_cost_per_request' },
} as const satisfies Readonly<Record<string, { readonly instead: string | null } & Omit<Part, 'instead'>>>;

export type CostPart = keyof typeof PARTS;
export const COST_PARTS = Object.keys(PARTS) as readonly CostPart[];

export type CountColumn = Exclude<(typeof PARTS)[CostPart]['column'], null>;
/** The parts that an upstream tells a count of. */
export const COUNTED_PARTS: readonly {
  readonly part: CostPart;
  readonly count: PartName;
  readonly column: CountColumn;
}[] = COST_PARTS.flatMap((part) => {
  const { count, column } = PARTS[part];
  return count === null ? [] : [{ part, count, column }];
});

/** Parts whose prices are columns of a ledger row. Where another is charged, the row lists all in `parts`. */
export const COLUMN_PARTS = ['input', 'cache_read', 'cache_write', 'output'] as const;
export type ColumnPart = (typeof COLUMN_PARTS)[number];

const BY_COLUMN: ReadonlySet<CostPart> = new Set(COLUMN_PARTS);

/** Whether a part has no column of its own in a ledger row. */
export function isListed(part: CostPart): boolean {
  return !BY_COLUMN.has(part);
}

export function partOf(name: CostPart): Part {
  return PARTS[name];
}
