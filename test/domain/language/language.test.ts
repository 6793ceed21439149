import t from 'tap';
import { de } from '../../../src/domain/language/de.ts';
import { en } from '../../../src/domain/language/en.ts';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { parts, pluralIn } from '../../../src/domain/language/words.ts';
import { asLanguage, LANGUAGES, readLanguage } from '../../../src/domain/languages.ts';
import { textsOf, VALUE } from '../../admin/english.ts';

/** Texts that are the same in German: names, and words that German has too. */
const SAME =
  /^(Name|Browser|Export|API|Status|Code|Embeddings|Filter|Optional\.|Parameter|Parameter missing|Playground|Prompt|Reasoning|Support|WebSocket|audio|budget|Budget|Tokens?|openapi\.json|[^\p{L}]*|.*JSON.*)$/u;
/** Texts of values and signs alone. */
const SIGNS = [
  'account.lead',
  'chart.inEur',
  'mails.subject',
  'mails.sentence',
  'mails.budget',
  'members.link',
];
/** Where a language has words of its own for a value, such as the name of a role. */
const OWN_WORDS = [
  'refusals.notOfCompany',
  'refusals.keyEnded',
  'key.shown.isNotActive',
  'playground.figures',
  'mails.invitation',
];
/** Letters that fit into their place: the longest text that a phone of 320 pixels shows whole, or on two lines. */
const ROOM: readonly (readonly [place: RegExp, letters: number])[] = [
  [/^tabs\./, 18],
  [/^memberTabs\./, 16],
  [/^frame\.(signOut|support|imprint|privacy|copy|copied)$/, 14],
  [/^list\.(show|previous|next)$/, 12],
  [/^usage\.(show|apply|export)$|^requests\.(show|find|refresh|newest|pause)$/, 16],
  [/^keys\.(rotate|revoke)$|^models\.(enable|disable|try)$|^assistants\.(edit|try)$/, 14],
  [/^members\.(changeRole|remove|renew|withdraw)$|^tokens\.revoke$/, 14],
  [/^usage\.presets\./, 16],
  [
    /(?:^|\.)(button|save|saveRole|createButton|inviteButton|stop|done|replace|download|allow)$/,
    42,
  ],
  [/(?:^|\.)title$/, 60],
];

const wordLists = LANGUAGES.map((language) => [language, textsOf(wordsOf(language))] as const);

t.test('all word lists have the same texts, and none is empty', async (t) => {
  const [, english] = wordLists.find(
    ([language]) => language === 'en',
  ) as (typeof wordLists)[number];
  for (const [language, texts] of wordLists) {
    t.same([...texts.keys()].sort(), [...english.keys()].sort(), language);
    for (const [place, said] of texts) {
      t.ok(said.length > 0, `${language} ${place} can be said`);
      const isEmpty = said.some((text) => text === '') && !/^models\.states\./.test(place);
      t.notOk(isEmpty, `${language} ${place} is not empty`);
    }
  }
});

t.test('each text tells all values that the English one tells', async (t) => {
  const [, english] = wordLists.find(
    ([language]) => language === 'en',
  ) as (typeof wordLists)[number];
  const valuesIn = (texts: readonly string[]) =>
    Math.max(...texts.map((text) => text.split(VALUE).length - 1));
  for (const [language, texts] of wordLists) {
    for (const [place, said] of texts) {
      if (OWN_WORDS.includes(place)) continue;
      t.ok(
        valuesIn(said) >= valuesIn(english.get(place) as string[]),
        `${language} ${place}: ${said[0]}`,
      );
    }
  }
});

t.test('no text was left in English, and German speaks to people as Sie', async (t) => {
  const [english, german] = [textsOf(en), textsOf(de)];
  for (const [place, said] of german) {
    if (SIGNS.includes(place)) continue;
    const same = said.filter((text) => english.get(place)?.includes(text) && !SAME.test(text));
    t.same(same, [], place);
    for (const text of said) {
      t.notMatch(text, /\b(du|dein|deine[mnrs]?|dir|dich|euch)\b/i, place);
      t.notMatch(text, /"|“[^„]*”|\b(the|and|of|with|your)\b/, place);
    }
  }
});

t.test('texts fit into their places', async (t) => {
  for (const [language, texts] of wordLists) {
    for (const [place, said] of texts) {
      const [, letters] = ROOM.find(([pattern]) => pattern.test(place)) ?? [];
      if (letters === undefined) continue;
      for (const text of said)
        t.ok(
          text.length <= letters,
          `${language} ${place} has ${text.length} of ${letters}: ${text}`,
        );
    }
  }
});

t.test('a language is known by its tag', async (t) => {
  t.equal(asLanguage('de'), 'de');
  for (const text of ['fr', 'toString', '', null, undefined]) t.equal(asLanguage(text), null);
  t.throws(() => readLanguage('fr'), { name: 'FieldError', message: 'must be en or de, not "fr"' });
});

t.test('values stay what they are, and numbers choose words', async (t) => {
  const mark = { isMarkup: true };
  t.same(parts`Used ${mark} ago, by ${'<b>'}.`, ['Used ', mark, ' ago, by ', '<b>', '.']);
  const plural = pluralIn('en');
  t.same(
    [0, 1, 2].map((count) => plural(count, { one: 'call', other: 'calls' })),
    ['calls', 'call', 'calls'],
  );
});
