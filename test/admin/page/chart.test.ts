import t from 'tap';
import {
  amounts,
  budgetBar,
  type Chart,
  chart,
  chartTiles,
  counts,
  durations,
  MAX_NAMED,
  MAX_SERIES,
  type Over,
  stackedBy,
  stepsTable,
} from '../../../src/admin/page/chart.ts';
import { formatFor } from '../../../src/admin/page/format.ts';

/** The chart: heights of bars, and labels of axes. */

const format = formatFor('en-IE', 'UTC');
const wide = (markup: string) => /<svg class="chart wide".+?<\/svg>/s.exec(markup)?.[0] ?? '';

interface Cell {
  readonly day: number;
  readonly model: string;
  readonly cost_eur: string;
}

/** A chart of a month. */
function monthChart(
  days: number,
  cells: readonly Cell[],
  models: readonly string[],
  month: string,
): string {
  const stack = stackedBy(models, format);
  const bars = Array.from({ length: days }, (_, at) => ({
    label: String(at + 1),
    name: `${at + 1} ${month}`,
    href: `?from=${at + 1}&to=${at + 1}`,
    ...stack.partsOf(
      cells
        .filter(({ day }) => day === at + 1)
        .map((each) => ({ name: each.model, value: each.cost_eur })),
    ),
  }));
  const names = { title: `Cost per day in ${month}`, how: 'in EUR', axis: 'Day', period: 'Day' };
  return `${chartTiles()}${chart({ ...names, measure: amounts(format), kind: 'stack', series: stack.series, bars }, format.words.chart)}`;
}

function bars(svg: string, series: number): number[] {
  return [...svg.matchAll(new RegExp(`<rect class="s${series}"[^>]* height="([\\d.]+)"`, 'g'))].map(
    ([, height]) => Number(height),
  );
}

t.test('heights are in proportion, stacks stand on each other', async (t) => {
  const cells = [
    { day: 1, model: 'a', cost_eur: '1' },
    { day: 1, model: 'b', cost_eur: '3' },
    { day: 30, model: 'a', cost_eur: '4' },
  ];
  const svg = wide(monthChart(30, cells, ['a', 'b'], 'June 2026'));
  const [first = 0, last = 0] = bars(svg, 0);
  const [second = 0] = bars(svg, 1);
  t.ok(Math.abs(last / first - 4) < 0.02);
  t.ok(Math.abs(second / first - 3) < 0.02);
  t.match(svg, '<title>1 June 2026: €4.00\nb: €3.00\na: €1.00</title>');
});

t.test('the axis has a few round numbers from zero to above the highest day', async (t) => {
  for (const [cost, ticks] of [
    ['10.3', ['€0', '€2', '€4', '€6', '€8', '€10', '€12']],
    ['0.00042', ['€0.0000', '€0.0001', '€0.0002', '€0.0003', '€0.0004', '€0.0005']],
    ['123456', ['€0', '€25,000', '€50,000', '€75,000', '€100,000', '€125,000']],
    ['0', ['€0', '€1']],
  ] as const) {
    const cells = [{ day: 3, model: 'a', cost_eur: cost }];
    const svg = wide(monthChart(31, cells, ['a'], 'July 2026'));
    t.same(
      [...svg.matchAll(/<text class="tick"[^>]+end">([^<]+)</g)].map(([, text]) => text),
      ticks,
      cost,
    );
  }
});

t.test('labels of the axis are inside the picture, however long they are', async (t) => {
  for (const half of [true, undefined]) {
    for (const cost_eur of ['0.000145', '123456', '2']) {
      const { series, partsOf } = stackedBy(['a'], format);
      const bars = [
        { label: '1', name: '1', href: null, ...partsOf([{ name: 'a', value: cost_eur }]) },
      ];
      const names = { title: 'Cost', how: 'in EUR', axis: 'Day', period: 'Day' };
      const markup = `${chart({ ...names, measure: amounts(format), kind: 'stack', series, bars, ...(half && { half }) }, format.words.chart)}`;
      const labels = [...markup.matchAll(/<text class="tick" x="([\d.]+)"[^>]+end">([^<]+)</g)];
      t.ok(labels.length > 0);
      for (const [, x, text = ''] of labels)
        t.ok(Number(x) >= text.length * (half ? 9 : 7.5), `${text} ends at ${x}`);
    }
  }
});

t.test('one outlier does not flatten a line: it is cut, and says how high it is', async (t) => {
  const days = Array.from(
    { length: 30 },
    (_, at) => [BigInt(400 + at), at === 12 ? 18_000n : BigInt(900 + at)] as const,
  );
  const markup = twoValues('line', days);
  const ticks = [...markup.matchAll(/<text class="tick"[^>]+end">([^<]+)</g)].map(
    ([, text]) => text,
  );
  t.equal(ticks.at(-1), '2 s');
  t.match(markup, '>↑ 18 s</text>');
  t.match(markup, 'aria-label="day 12: first 412 ms, second 18 s"');
  t.notMatch(twoValues('line', days.slice(13)), '↑');
});

t.test('models beyond the limit are stacked as one', async (t) => {
  const models = Array.from({ length: MAX_SERIES + 3 }, (_, i) => `model-${i}`);
  const cells = models.map((model) => ({ day: 1, model, cost_eur: '1' }));
  const svg = wide(monthChart(30, cells, models, 'June 2026'));
  const [named = 0] = bars(svg, 0);
  const [rest = 0] = bars(svg, MAX_SERIES);
  t.ok(Math.abs(rest / named - 3) < 0.02);
});

t.test('the text at a bar names the dearest models of the day and counts the others', async (t) => {
  const models = Array.from({ length: 300 }, (_, i) => `model-${i}`);
  const cells = models.map((model, i) => ({ day: 1, model, cost_eur: `${i}.5` }));
  const svg = wide(monthChart(30, cells, models, 'June 2026'));
  const [sum, ...lines] = (/<title>(1 .+?)<\/title>/s.exec(svg)?.[1] ?? '').split('\n');
  t.equal(sum, '1 June 2026: €45,000.00');
  t.equal(lines.length, MAX_NAMED + 1);
  t.equal(lines[0], 'model-299: €299.50');
  t.equal(lines.at(-1), 'and 292 more');
});

t.test('the bar has room for more than the budget', async (t) => {
  const bar = String(budgetBar(format.words.usage, 10, 250, null));
  t.match(bar, '<rect class="spent" x="0.00%" width="100.00%"');
  t.match(bar, '<rect fill="url(#beyond)" x="40.00%" width="60.00%"');
  t.match(bar, 'x1="40.00%"');
});

t.test(
  'the legend of a budget has each part of its bar, in the same colour and pattern, and no other',
  async (t) => {
    for (const [chat, total, forecast] of [
      [0, 0, null],
      [10, 50, 90],
      [10, 85, 120],
      [10, 250, null],
      [120, 250, 400],
      [30, 100, 100],
      [0, 130, 130],
    ] as const) {
      const [, bar = '', legend = ''] =
        /(<svg class="budget".*?<\/svg>)(.*)/s.exec(
          String(budgetBar(format.words.usage, chat, total, forecast)),
        ) ?? [];
      const paints = (markup: string) =>
        [...markup.matchAll(/(?:class|fill)="(spent|forecast|limit|url\(#beyond\))"/g)].map(
          ([, paint]) => paint,
        );
      const isAhead = forecast !== null && forecast > total; // else it lies below what is spent
      const drawn = paints(bar).filter((paint) => paint !== 'forecast' || isAhead);
      const told = paints(legend).filter((paint) => paint !== 'spent' || total > 0);
      t.same(new Set(told), new Set(drawn), `${chat} ${total} ${forecast}`);
    }
  },
);

t.test(
  'each series but the first has a pattern of its own, in the bars and in the legend',
  async (t) => {
    const models = Array.from({ length: MAX_SERIES + 1 }, (_, i) => `model-${i}`);
    const markup = monthChart(
      30,
      models.map((model) => ({ day: 1, model, cost_eur: '1' })),
      models,
      'June 2026',
    );
    for (let series = 0; series <= MAX_SERIES; series++) {
      const drawn = [
        ...markup.matchAll(new RegExp(`<rect class="s${series}" ([^>]*)width="(?!8")`, 'g')),
      ];
      t.ok(drawn.length >= 3, 'both sizes and the legend');
      const paint = series === 0 ? '' : `fill="url(#p${series})" `;
      for (const [, attributes = ''] of drawn) t.ok(attributes.startsWith(paint), attributes);
      if (series > 0) t.match(markup, `<pattern id="p${series}"`);
    }
  },
);

t.test(
  'each bar with calls is a link with a name, in both sizes; a table has the same figures, to the last digit',
  async (t) => {
    const cells = [
      { day: 2, model: 'a', cost_eur: '0.123456789' },
      { day: 2, model: '<b>', cost_eur: '1' },
      { day: 3, model: 'a', cost_eur: '0.00000001' },
    ];
    const markup = monthChart(3, cells, ['a', '<b>'], 'June 2026');
    t.notMatch(markup, '<b>');
    const links = [...markup.matchAll(/<a class="bar" href="([^"]+)" aria-label="([^"]+)">/g)].map(
      ([, ...found]) => found,
    );
    const once = [
      ['?from=2&amp;to=2', '2 June 2026: €1.123456789'],
      ['?from=3&amp;to=3', '3 June 2026: €0.00000001'],
    ];
    t.same(links, [...once, ...once]);
    const rows = [...markup.matchAll(/<tr><th scope="row">(.*?)<\/tr>/gs)].map(
      ([, row]) => row as string,
    );
    t.equal(rows.length, 3);
    t.match(rows[0], /^1 June 2026<\/th><td class="figure">–<\/td>/);
    t.match(rows[1], /title="€1.123456789">€1.12<.*title="€0.123456789">€0.12<.*>€1.00</s);
    t.match(rows[2], /title="€0.00000001">&lt; €0.01</);
  },
);

t.test('a chart of any length names some of its bars', async (t) => {
  for (const days of [1, 23, 24, 25, 31, 62]) {
    const svg = wide(monthChart(days, [{ day: 1, model: 'a', cost_eur: '1' }], ['a'], 'June 2026'));
    const labels = [...svg.matchAll(/text-anchor="middle">(\d+)</g)].length;
    t.ok(labels >= Math.min(days, 8) && labels <= 16, `${days} bars, ${labels} labels`);
  }
});

const DAYS = { title: 'Of days', how: 'as told', axis: 'Day', period: 'Day' };

/** A small chart with two values a day. */
function twoValues(
  kind: Chart['kind'],
  values: readonly (readonly [bigint | null, bigint | null])[],
  over: readonly Over[] = [],
): string {
  const bars = values.map((each, at) => ({
    label: `${at}`,
    name: `day ${at}`,
    href: `?day=${at}`,
    values: each,
  }));
  const measure = kind === 'line' ? durations(format) : counts(format);
  return String(
    chart(
      { ...DAYS, measure, kind, half: true, series: ['first', 'second'], bars, over },
      format.words.chart,
    ),
  );
}

t.test(
  'lines over bars are as high as bars of their values, and only another time is in texts and table',
  async (t) => {
    const over: Over[] = [
      { look: 'was', name: 'Before', values: [40n, 10n], names: ['day -2', 'day -1'] },
      { look: 'limit', name: 'Budget: 20 a day', values: [20n, 20n] },
    ];
    const markup = twoValues(
      'stack',
      [
        [10n, 10n],
        [20n, null],
      ],
      over,
    );
    const [, drawing = ''] = /(<svg class="chart.*?<\/svg>)/s.exec(markup) ?? [];
    const linesOf = (look: string) =>
      [...drawing.matchAll(new RegExp(`class="line ${look}" d="([^"]+)"`, 'g'))].map(
        ([, path = '']) => [...path.matchAll(/[ML]([\d.]+) ([\d.]+)/g)].map(([, , y]) => Number(y)),
      );
    const [[high = 0, low = 0] = []] = linesOf('was');
    const [[first = 0, second = 0] = []] = linesOf('limit');
    const [, ofBar = 0] = [...drawing.matchAll(/<rect class="s0"[^>]* y="([\d.]+)"/g)].map(
      ([, y]) => Number(y),
    );
    t.equal(first, second, 'a limit is level');
    t.equal(first, ofBar, 'as high as a bar of 20');
    t.ok(high < first && first < low, 'and between 40 and 10');
    t.equal(linesOf('halo').length, 2, 'each on the colour of the background');
    t.match(markup, '<title>day 0: 20\nfirst: 10\nsecond: 10\nday -2: 40</title>');
    t.match(markup, /<th scope="col" class="figure">Before<\/th><\/tr>/);
    t.equal(markup.match(/<svg class="chart half"/g)?.length, 1, 'drawn once');
    t.equal(markup.match(/Budget: 20 a day/g)?.length, 1, 'in the legend alone');
  },
);

t.test(
  'a line has a gap where a value is not known, and a dot where it stands alone',
  async (t) => {
    const markup = twoValues('line', [
      [100n, 900n],
      [null, 1000n],
      [300n, 1100n],
      [400n, 1200n],
    ]);
    const [, chartOnly = ''] = /(<svg class="chart.*?<\/svg>)/s.exec(markup) ?? [];
    const paths = [...chartOnly.matchAll(/<path class="line l\d" d="([^"]+)"/g)].map(
      ([, path = '']) => path,
    );
    t.same(
      paths.map((path) => path.replaceAll(/[^ML]/g, '')),
      ['MML', 'MLLL'],
    );
    t.equal(chartOnly.match(/h\.01/g)?.length, 3, 'a dot where a line begins');
    t.match(markup, 'aria-label="day 0: first 100 ms, second 900 ms"');
  },
);

t.test(
  'parts of an explanation go right for more and left for less, in proportion, and none for nothing',
  async (t) => {
    const steps = [3n, -1n, 0n].map((value) => ({
      name: `part ${value}`,
      note: '',
      value,
      text: `${value}`,
    }));
    const whole = { name: 'All', note: '', value: null, text: 'all' };
    const markup = String(stepsTable('Why', [whole, ...steps], counts(format)));
    const rects = [...markup.matchAll(/<rect [^>]*x="([\d.]+)%" width="([\d.]+)%"/g)].map(
      ([, x, width]) => [Number(x), Number(width)],
    );
    t.same(rects, [
      [50, 50],
      [33.33, 16.67],
    ]);
    t.equal(markup.match(/<tr role="row"/g)?.length, 4);
  },
);
