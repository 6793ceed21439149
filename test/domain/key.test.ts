import t from 'tap';
import { mintKey, possibleKeysIn } from '../../src/domain/key.ts';

const [own, second, foreign] = [mintKey('svc_'), mintKey('svc_'), mintKey('old-svcb_')];
const found = (text: string, prefix = 'svc_') => possibleKeysIn(text, prefix).sort();

t.test('keys are found wherever they are in a text', async (t) => {
  for (const text of [
    own,
    `  ${own}\r\n`,
    `TOLLGATE_API_KEY=${own}\nOTHER="x"`,
    `{"authorization":"Bearer ${own}"}`,
    `https://x.example/?key=${own}&a=b`,
    `bearer%20${own}%22`,
    `prefixed-${own}`,
    `${own}${own.slice(4, 20)}`,
    `svc_${own}`,
    `[2026-11-22] GET /v1/models ${own}, ${own}`,
  ]) {
    t.ok(found(text).includes(own), text.replace(own, '…'));
  }
  t.same(found(`a=${own} b=${second}, ${own}`), [own, second].sort(), 'each once');
});

t.test('keys of other prefixes are found as words, and any text that is one word', async (t) => {
  t.same(found(`export KEY=${foreign}`), [foreign]);
  t.same(
    found(`in xx${foreign}.`, 'k'),
    [`xx${foreign}`],
    'a word with a longer beginning is another key',
  );
  t.same(found(' some:other.format '), ['some:other.format']);
});

t.test('keys that came from LiteLLM are found as words', async (t) => {
  const moved = 'sk-Ab_c-9dEfGhIjKlMnOpQrSt';
  t.same(found(`{"Authorization":"Bearer ${moved}"}, sk-short`), [moved]);
  t.same(found(`task-${'x'.repeat(20)} and xsk-${'y'.repeat(20)}`), [], 'no words that end so');
});

t.test('words of another form are not looked up', async (t) => {
  t.same(
    found('the quick brown fox, svc_, svc_short and SVC_ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'),
    [],
  );
  t.same(found(''), []);
  t.same(found('x'.repeat(300)), []);
  t.same(found(`${'a'.repeat(49)} b`), [], 'too long for a prefix and 32 characters');
});
