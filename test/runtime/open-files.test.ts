import fc from 'fast-check';
import t from 'tap';
import { fitOpenFiles } from '../../src/runtime/open-files.ts';

const WANTED = { maxConnections: 20_000, maxRequests: 15_000, maxAbandoned: 1000 };

t.test('where there are enough files, or nobody tells how many, nothing changes', async (t) => {
  t.same(fitOpenFiles(WANTED), {});
  t.same(fitOpenFiles(WANTED, Number.POSITIVE_INFINITY), {});
  t.same(fitOpenFiles(WANTED, 65_536), {});
  t.same(
    fitOpenFiles({ ...WANTED, maxConnections: 200 }, 500),
    { maxAbandoned: 36 },
    'calls left behind give way first',
  );
});

t.test(
  'each connection finds a descriptor for its call, and calls left behind take none of those',
  async (t) => {
    t.same(fitOpenFiles(WANTED, 256), { maxConnections: 84, maxRequests: 84, maxAbandoned: 24 });
    t.same(fitOpenFiles(WANTED, 1024), {
      maxConnections: 420,
      maxRequests: 420,
      maxAbandoned: 120,
    });
    const whole = fc.integer({ min: 1, max: 100_000 });
    fc.assert(
      fc.property(
        whole,
        whole,
        fc.integer({ min: 100, max: 300_000 }),
        (maxConnections, maxRequests, limit) => {
          const wanted = { ...WANTED, maxConnections, maxRequests };
          const fitted = { ...wanted, ...fitOpenFiles(wanted, limit) };
          const calls = Math.min(fitted.maxRequests, fitted.maxConnections);
          return fitted.maxConnections + calls + fitted.maxAbandoned <= limit - 64 && calls > 0;
        },
      ),
    );
  },
);
