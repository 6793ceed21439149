import t from 'tap';
import { formatTraceparent, parseTraceparent } from '../../src/tracing/traceparent.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

t.test('a header is read and written back', async (t) => {
  for (const flags of [0, 1, 2, 3]) {
    const header = `00-${TRACE}-${PARENT}-0${flags}`;
    const context = parseTraceparent(header);
    t.same(context, { traceId: TRACE, parentId: PARENT, flags });
    t.equal(context && formatTraceparent(context), header);
  }
});

t.test('flags without a meaning are not passed on', async (t) => {
  t.match(parseTraceparent(`00-${TRACE}-${PARENT}-fd`), { flags: 1 });
});

t.test('a later version is read as far as it is known', async (t) => {
  t.match(parseTraceparent(`01-${TRACE}-${PARENT}-01`), { traceId: TRACE });
  t.match(parseTraceparent(`cc-${TRACE}-${PARENT}-01-what-the-future-brings`), {
    parentId: PARENT,
    flags: 1,
  });
});

t.test('what is no valid header begins a new trace', async (t) => {
  const wrong = [
    '',
    TRACE,
    `ff-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-01-more`,
    `00-${TRACE}-${PARENT}-01.`,
    `cc-${TRACE}-${PARENT}-01.more`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.slice(1)}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-1`,
    `00-${TRACE}-${PARENT}`,
    `00_${TRACE}_${PARENT}_01`,
    ` 00-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-0g`,
  ];
  for (const header of wrong) t.equal(parseTraceparent(header), null, header);
});
