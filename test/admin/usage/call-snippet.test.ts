import t from 'tap';
import { keyVariable } from '../../../src/admin/usage/call-snippet.ts';

t.test('the variable of a key is named after the service, and is one of a shell', async (t) => {
  for (const [brand, variable] of [
    ['Tollgate', 'TOLLGATE_API_KEY'],
    ['Acme AI', 'ACME_AI_API_KEY'],
    ['Café Müller & Co.', 'CAFE_MULLER_CO_API_KEY'],
    ['42', 'API_KEY'],
    ['東京', 'API_KEY'],
  ] as const)
    t.equal(keyVariable(brand), variable);
});
