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
  const inputs = Array.isArray(input) && !isTokenIds(input) ? input : [input];
  if (
    inputs.length === 0 ||
    !inputs.every((one) => (typeof one === 'string' && one !== '') || isTokenIds(one))
  ) {
    throw new DemoError(
      400,
      "'input' must be texts or lists of token ids, none of them empty.",
      null,
      'input',
    );
  }
  if (
    !Number.isInteger(dimensions) ||
    (dimensions as number) < 1 ||
    (dimensions as number) > MOST_DIMENSIONS
  ) {
    throw new DemoError(
      400,
      `'dimensions' must be an integer from 1 to ${MOST_DIMENSIONS}.`,
      null,
      'dimensions',
    );
  }
  const counts = inputs.map(
    (one) => (typeof one === 'string' ? tokens(one) : (one as number[])).length,
  );
  return {
    vectors: inputs.map((one) => vector(String(one), dimensions as number)),
    promptTokens: counts.reduce((sum, count) => sum + count, 0),
  };
}

function isTokenIds(input: unknown): boolean {
  return Array.isArray(input) && input.length > 0 && input.every(Number.isSafeInteger);
}

function vector(text: string, dimensions: number): Float32Array {
  const bytes = createHash('shake256', { outputLength: dimensions * 4 })
    .update(text)
    .digest();
  const values = Float32Array.from(
    { length: dimensions },
    (_, i) => bytes.readInt32LE(i * 4) / 2 ** 31,
  );
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
