/**
 * The parts of a cost, in the order of statements: each is a number of units × a price per 1000 of them. One row a part,
 * from which follow prices, the ledger's columns and formula, lines of statements and pages (contract section 4).
 */
interface Part {
  /** The count that its units are within; null: it is charged beside tokens. */
  readonly within: 'prompt' | 'completion' | null;
  /** The count that an upstream tells of it; null: the rest of what it is within, or the call itself. */
  readonly count: keyof PartCounts | null;
  /** The part whose price its units cost where it has none; null: they cost nothing. */
  readonly instead: CostPart | null;
}

/** Units that an upstream told apart; null: not told, which counts as 0. */
export interface PartCounts {
  /** Prompt tokens read from the upstream's cache, and those written to it, an hour's included. */
  readonly cached: number | null;
  readonly cacheWrite: number | null;
  /** Of those written, the ones that are kept for an hour. */
  readonly cacheWriteHour: number | null;
  readonly audioPrompt: number | null;
  readonly imagePrompt: number | null;
  /** Completion tokens that are reasoning, audio and images. */
  readonly reasoning: number | null;
  readonly audioCompletion: number | null;
  readonly imageCompletion: number | null;
  /** Search units of a rerank. */
  readonly searchUnits: number | null;
}

// biome-ignore format: a table
export const PARTS = {
  input:          { within: 'prompt', count: null, instead: null },
  cache_read:     { within: 'prompt', count: 'cached', instead: 'input' },
  cache_write:    { within: 'prompt', count: 'cacheWrite', instead: 'input' },
  cache_write_1h: { within: 'prompt', count: 'cacheWriteHour', instead: 'cache_write' },
  audio_input:    { within: 'prompt', count: 'audioPrompt', instead: 'input' },
  image_input:    { within: 'prompt', count: 'imagePrompt', instead: 'input' },
  output:         { within: 'completion', count: null, instead: null },
  reasoning:      { within: 'completion', count: 'reasoning', instead: 'output' },
  audio_output:   { within: 'completion', count: 'audioCompletion', instead: 'output' },
  image_output:   { within: 'completion', count: 'imageCompletion', instead: 'output' },
  search_unit:    { within: null, count: 'searchUnits', instead: null },
  request:        { within: null, count: null, instead: null },
} as const satisfies Readonly<Record<string, { readonly instead: string | null } & Omit<Part, 'instead'>>>;

export type CostPart = keyof typeof PARTS;
export const COST_PARTS = Object.keys(PARTS) as readonly CostPart[];

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
