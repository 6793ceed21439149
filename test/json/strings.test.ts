import { readFileSync } from 'node:fs';
import t from 'tap';
import { GENERATED, generateStrings } from '../generate-strings.ts';

// that it finds the ends of strings is tested through the parsers, which call it

t.test('the committed module is what strings.wat assembles to', async (t) => {
  t.equal(readFileSync(GENERATED, 'utf8'), await generateStrings(), 'run `make generate`');
});
