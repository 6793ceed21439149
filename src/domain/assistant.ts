/** A stored assistant as a run needs it (spec section 2.6). Only eligible assistants are loaded. */
export interface Assistant {
  readonly id: string;
  readonly companyId: string;
  readonly systemPrompt: string;
  readonly modelSlug: string | null;
  readonly temperature: number | null;
  readonly maxTokens: number | null;
}

export type Visibility = 'company' | 'private' | 'persons' | 'teams' | 'projects';

/** Whether the API shows an assistant: shared company-wide and without a home project (spec section 2.6). */
export function isEligible(visibility: string, projectId: string | null): boolean {
  return visibility === 'company' && projectId === null;
}

export interface Message {
  readonly role: string;
  readonly content: unknown;
}

/**
 * The system message of a run: the prompt and the current date (spec section 4.4, behaviour 1).
 * @param date calendar date in the billing time zone, "2026-11-21"
 */
export function systemMessage(assistant: Assistant, date: string): Message {
  const prompt = assistant.systemPrompt.trim();
  return { role: 'system', content: `${prompt}${prompt === '' ? '' : '\n\n'}Current date: ${date}` };
}
