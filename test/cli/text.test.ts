import t from 'tap';
import { card, instant, listing, minute, table } from '../../src/cli/text.ts';

t.test('a table is aligned, numbers to the right, without blanks at line ends', async (t) => {
  const text = table(
    ['NAME', 'EUR', 'STATE'],
    [
      ['Ü', '12.5', 'active'],
      ['long name', '0.001', '-'],
    ],
    ['EUR'],
  );
  t.same(text.split('\n'), ['NAME         EUR  STATE', 'Ü           12.5  active', 'long name  0.001  -']);
});

t.test('an empty list is a sentence', async (t) => {
  t.equal(listing([], { NAME: String }, 'There is nothing.'), 'There is nothing.');
  t.equal(listing(['x'], { NAME: String }, 'There is nothing.'), 'NAME\nx');
});

t.test('a card has a sentence and aligned members', async (t) => {
  t.equal(card('Made.', { id: '1', 'long name': 'x' }), 'Made.\n\n  id         1\n  long name  x');
});

t.test('control characters in names do not reach the terminal', async (t) => {
  const nasty = 'a\u001b[2Jb\nc\u009b';
  t.notMatch(table(['N'], [[nasty]]).split('\n')[1], /\p{Cc}/u);
  t.notMatch(card('Made.', { name: nasty }).split('\n').at(-1), /\p{Cc}/u);
});

t.test('times are in UTC and name the zone', async (t) => {
  const at = new Date('2026-11-21T09:41:59.999+01:00');
  t.equal(instant(at), '2026-11-21 08:41 UTC');
  t.equal(minute(at), '2026-11-21 08:41');
  t.equal(minute(null), '-');
});
