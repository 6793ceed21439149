import { createHash } from 'node:crypto';
import { tokens } from './answer.ts';
import { DemoError, type Json } from './request.ts';

/** Length of a vector when the request asks for none (spec section 2.4). */
const DIMENSIONS = 1024;
const MOST_DIMENSIONS = 4096;

/**
 * Answers an embeddings request with vectors of length 1, each a function of its text.
 * @throws DemoError when the reference format would refuse the request
 */
export function answerEmbeddings(body: Json): { vectors: Float32Array[]; promptTokens: number } {
  const { input, dimensions = DIMENSIONS } = body;
  const texts = (Array.isArray(input) && input.length > 0 ? input : [input]) as unknown[];
  if (!texts.every((text) => typeof text === 'string' && text !== '')) {
    throw new DemoError(400, "'input' must be a string or an array of strings, none of them empty.", null, 'input');
  }
  if (!Number.isInteger(dimensions) || (dimensions as number) < 1 || (dimensions as number) > MOST_DIMENSIONS) {
    throw new DemoError(400, `'dimensions' must be an integer from 1 to ${MOST_DIMENSIONS}.`, null, 'dimensions');
  }
  const promptTokens = texts.reduce<number>((sum, text) => sum + tokens(text as string).length, 0);
  return { vectors: texts.map((text) => vector(text as string, dimensions as number)), promptTokens };
}

function vector(text: string, dimensions: number): Float32Array {
  const bytes = createHash('shake256', { outputLength: dimensions * 4 })
    .update(text)
    .digest();
  const values = Float32Array.from({ length: dimensions }, (_, i) => bytes.readInt32LE(i * 4) / 2 ** 31);
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
