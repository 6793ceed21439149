import t from 'tap';
import { searchPattern } from '../../../src/store/lists/search-pattern.ts';
import { emptyDatabase } from '../../support/postgres.ts';

/** The patterns are those of Postgres, here in a database whose locale is "C". */

const { db } = await emptyDatabase(t);
const finds = async (search: string, texts: readonly string[]): Promise<string[]> => {
  const rows = await db.run(
    10_000,
    (sql) =>
      sql<
        { text: string }[]
      >`select text from unnest(${[...texts]}::text[]) as text where text ~ ${searchPattern(search)}`,
  );
  return rows.map(({ text }) => text);
};

const FOUND: readonly (readonly [search: string, ...texts: string[]])[] = [
  ['muller', 'Müller', 'MÜLLER', 'Muller', 'Mu\u0308ller', 'Hans Müller & Co'],
  ['mueller', 'Müller', 'Mueller', 'MUELLER', 'Mu\u0308ller', 'MÜLLER'],
  ['MÜLLER', 'müller', 'Mueller', 'Muller', 'mu\u0308ller'],
  ['mu\u0308ller', 'Müller', 'Mueller'],
  ['gruene', 'Grüne Wiese', 'GRÜNE', 'Gruene'],
  ['grune', 'Grüne'],
  ['grüne', 'Gruene', 'GRUNE'],
  ['jaeger soehne', 'Jäger Söhne', 'Jäger Soehne', 'Jaeger Söhne', 'JÄGER\u00a0SÖHNE'],
  ['strasse', 'Straße', 'STRASSE', 'STRAẞE'],
  ['straße', 'Strasse', 'STRASSE', 'STRAẞE'],
  ['lodz', 'Łódź', 'ŁÓDŹ'],
  ['łódź', 'Lodz', 'LODZ', 'Łódź'],
  ['malmo', 'Malmö'],
  ['kobenhavn', 'København'],
  ['koebenhavn', 'København'],
  ['angstrom', 'Ångström'],
  ['aarhus', 'Århus', 'Aarhus'],
  ['coeur', 'Cœur', 'Coeur'],
  ['thor', 'Þór', 'Thor'],
  ['reykjavik', 'Reykjavík'],
  ['ao jose', 'São José'],
  ['istanbul', 'İstanbul', 'ISTANBUL'],
  ['nguyen', 'Nguyễn'],
  ['москва', 'МОСКВА', 'Москва'],
  ['αθήνα', 'ΑΘΗΝΑ', 'Αθήνα'],
  ["o'neil", 'O’NEIL'],
  ['a-b', 'A–B'],
  ['50%', 'up to 50% less'],
  ['.*', 'a .* b'],
  ['c++ [x] (y) \\d ^$ {2}', 'C++ [X] (Y) \\D ^$ {2}'],
  ['😀', 'smile 😀'],
  ['日本', '日本語'],
];

t.test('a search finds what people mean, whatever the case and the accents', async (t) => {
  for (const [search, ...texts] of FOUND) t.same(await finds(search, texts), texts, search);
});

t.test('and nothing else: signs of patterns are text', async (t) => {
  const other = ['Miller', 'Grane', 'Lots', 'Strase', 'aXb', 'abc', '', ' '];
  for (const [search] of FOUND) t.same(await finds(search, other), [], search);
  t.same(await finds('ä', ['a', 'o', 'ae']), ['a', 'ae']);
});

t.test('the longest search is a pattern that Postgres takes', async (t) => {
  for (const letter of ['ü', 'a', '(', '😀', '\u0308', 'ue'])
    t.same(
      await finds(letter.repeat(200 / letter.length), ['b']),
      letter === '\u0308' ? ['b'] : [],
      letter,
    );
});
