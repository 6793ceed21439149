import t from 'tap';
import { digestOf, REVOKED } from '../../../src/domain/key.ts';
import { RequestCompanies, UNKNOWN } from '../../../src/gateway/request/company.ts';
import { RequestHead } from '../../../src/http/request-head.ts';

type Key = NonNullable<
  ReturnType<ConstructorParameters<typeof RequestCompanies>[0]['keyInMemory']>
>;

const headWith = (...headers: string[]) => new RequestHead(headers);
const bearer = (key: string) => headWith('authorization', `Bearer ${key}`);

/** Companies of the keys "known" and "stored", of which the second is in the database only. */
function start() {
  const asked: string[] = [];
  const waiting: PromiseWithResolvers<Key | null>[] = [];
  const keyOf = (companyId: string, expiresAt = Infinity) => ({ companyId, expiresAt }) as Key;
  const companies = new RequestCompanies({
    keyInMemory(digest) {
      if (digest === digestOf('revoked')) return keyOf('company-1', REVOKED);
      return digest === digestOf('known') ? keyOf('company-1') : null;
    },
    key(digest) {
      asked.push(digest);
      const answer = Promise.withResolvers<Key | null>();
      waiting.push(answer);
      return answer.promise;
    },
    company: () => null,
    assistant: () => null,
    endUser: () => null,
  });
  return { companies, asked, waiting, keyOf };
}

t.test('a key in memory tells its company at once, in either header', async (t) => {
  const { companies, asked } = start();
  t.equal(companies.of(bearer('known')), 'company-1');
  t.equal(companies.of(headWith('x-api-key', 'known')), 'company-1');
  t.equal(companies.of(headWith('host', 'x')), UNKNOWN, 'no key is of nobody');
  t.same(asked, [], 'and nothing is read');
});

t.test('another key is looked up, once for all requests that bring it', async (t) => {
  const { companies, asked, waiting, keyOf } = start();
  const found = [1, 2, 3].map(() => companies.of(bearer('stored')));
  t.same(asked, [digestOf('stored')]);
  waiting[0]?.resolve(keyOf('company-2'));
  t.same(await Promise.all(found), ['company-2', 'company-2', 'company-2']);
});

t.test('keys that do not exist or cannot be looked up are of nobody', async (t) => {
  const { companies, waiting } = start();
  const [absent, failed] = [companies.of(bearer('absent')), companies.of(bearer('failed'))];
  waiting[0]?.resolve(null);
  waiting[1]?.reject(new Error('no database'));
  t.same(await Promise.all([absent, failed]), [UNKNOWN, UNKNOWN]);
});

t.test(
  'a revoked key is of nobody, in memory or looked up: strangers have it, and its company has a share',
  async (t) => {
    const { companies, waiting, keyOf } = start();
    t.equal(companies.of(bearer('revoked')), UNKNOWN);
    const found = companies.of(bearer('stored'));
    waiting[0]?.resolve(keyOf('company-2', REVOKED));
    t.equal(await found, UNKNOWN);
  },
);

t.test('no more than 500 keys are looked up at once', async (t) => {
  const { companies, asked, waiting } = start();
  const found = Array.from({ length: 700 }, (_, n) => companies.of(bearer(`stranger-${n}`)));
  t.equal(asked.length, 500);
  t.same(new Set(found.slice(500)), new Set([UNKNOWN]));
  for (const answer of waiting) answer.resolve(null);
  await Promise.all(found);
  companies.of(bearer('stranger-600'));
  t.equal(asked.length, 501, 'later there is room again');
});
