import { tokens } from './answer.ts';
import { DemoError, type Json } from './request.ts';

/**
 * Answers a rerank request: a document scores by the share of the query's words that it has.
 * @throws DemoError for a request without a query or documents
 */
export function answerRerank({ model, query, documents, top_n, return_documents }: Json): Json {
  if (typeof query !== 'string' || query === '')
    throw new DemoError(400, "'query' must be a text.", null, 'query');
  if (!Array.isArray(documents) || documents.length === 0)
    throw new DemoError(400, "'documents' must be a list of texts.", null, 'documents');
  const texts = documents.map(textOf);
  const wanted = wordsOf(query);
  const results = texts.map((text, index) => ({
    index,
    relevance_score: shareOf(wanted, wordsOf(text)),
    ...(return_documents === true ? { document: { text } } : {}),
  }));
  results.sort((a, b) => b.relevance_score - a.relevance_score);
  const used = texts.reduce((sum, text) => sum + tokens(query).length + tokens(text).length, 0);
  return {
    id: 'rerank-demo',
    model,
    usage: { prompt_tokens: used, total_tokens: used },
    // as LiteLLM tells it; Vercel's client for Cohere takes no answer without
    meta: { billed_units: { search_units: 1 }, tokens: { input_tokens: used, output_tokens: 0 } },
    results: typeof top_n === 'number' ? results.slice(0, top_n) : results,
  };
}

/** A document is a text, an object with one, or an object of fields. */
function textOf(document: unknown): string {
  if (typeof document === 'string') return document;
  const { text } = document as Readonly<Record<string, unknown>>;
  return typeof text === 'string' ? text : JSON.stringify(document);
}

function wordsOf(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
}

function shareOf(wanted: Set<string>, found: Set<string>): number {
  return wanted.size === 0 ? 0 : [...wanted].filter((word) => found.has(word)).length / wanted.size;
}
