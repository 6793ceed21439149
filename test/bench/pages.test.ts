import t from 'tap';
import { pathsOf } from '../../bench/sections/pages.ts';
import { ROUTES } from '../../src/admin/pages.ts';

t.test('every page that is measured is there', async (t) => {
  const pages = ROUTES.filter(({ method }) => method === 'GET').map(
    ({ path }) => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`),
  );
  for (const [name, path] of Object.entries(pathsOf('2026-11-22'))) {
    const [address = ''] = path.split('?');
    t.ok(
      pages.some((page) => page.test(address)),
      `${name}: ${path}`,
    );
  }
});
