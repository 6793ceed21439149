import t from 'tap';
import { statusFailure } from '../../../src/upstream/failure.ts';
import { OTHERS, OVERFLOWS } from '../../support/overflows.ts';

const MODEL = { slug: 'fast', upstream: 'internal-fast' } as Parameters<
  typeof statusFailure
>[2]['model'];
const CALL = {
  model: MODEL,
  secrets: [],
  ownBody: { member: () => null, nearest: (path: string) => path },
  retryAfter: undefined,
};
const failure = (status: number, body: unknown) =>
  statusFailure(status, Buffer.from(JSON.stringify(body)), CALL);

t.test(
  'every wording of an input that is too long, by the status that it comes with',
  async (t) => {
    for (const { source, status, body } of OVERFLOWS) {
      const error = failure(status, body);
      t.match(error, { status: 400, code: 'context_length_exceeded', retry: undefined }, source);
      t.match(error.message, /\w{3}/, `${source}: a text`);
      t.notMatch(error.message, /internal|https?:|org_/, source);
    }
  },
);

t.test('the status may be another one, and the words may be all that there is', async (t) => {
  for (const { source, status, body } of OVERFLOWS) {
    for (const other of [400, 413, 422, 500, 502]) {
      t.match(
        failure(other, body),
        { code: 'context_length_exceeded' },
        `${source}: ${other} for ${status}`,
      );
    }
  }
});

t.test('a rate limit and an ordinary bad request are none', async (t) => {
  for (const [text, status] of OTHERS) {
    for (const body of [{ error: { message: text } }, { error: text }, { detail: text }]) {
      const error = failure(status, body);
      t.not(error.code, 'context_length_exceeded', text);
      t.equal(error.status, status, text);
    }
  }
});
