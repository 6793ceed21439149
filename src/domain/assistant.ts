/** A stored assistant as a run needs it (spec section 2.6). Only eligible assistants are loaded. */
export interface Assistant {
  readonly id: string;
  readonly companyId: string;
  /** The text of the system message up to the date, as JSON, in pieces. Runs share its bytes: a prompt may be a megabyte. */
  readonly prompt: readonly Buffer[];
  readonly modelSlug: string | null;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
}

export type Visibility = 'company' | 'private' | 'persons' | 'teams' | 'projects';

/** Whether the API shows an assistant: shared company-wide and without a home project (spec section 2.6). */
export function isEligible(visibility: string, projectId: string | null): boolean {
  return visibility === 'company' && projectId === null;
}

/** Pieces of a request are at most so large: each is one write to the upstream. */
const PIECE_BYTES = 131_072;

/** The beginning of a JSON string, which `dateText` ends. @param text as it is stored */
export function promptPieces(text: string): readonly Buffer[] {
  const prompt = text.trim();
  const bytes = Buffer.from(JSON.stringify(prompt === '' ? '' : `${prompt}\n\n`).slice(0, -1));
  const count = Math.ceil(bytes.length / PIECE_BYTES);
  return Array.from({ length: count }, (_, n) =>
    bytes.subarray(n * PIECE_BYTES, (n + 1) * PIECE_BYTES),
  );
}

/**
 * The end of the system message of a run: the prompt is followed by the current date (spec section 4.4, behaviour 1).
 * @param date calendar date in the billing time zone, "2026-11-21"
 */
export function dateText(date: string): string {
  return `Current date: ${date}"`;
}
