import t from 'tap';
import { addDays } from '../../src/domain/reports/day-range.ts';
import {
  compare,
  type DayFigures,
  type FoundJump,
  type Jump,
  jumpsOf,
  type KeyModelFigures,
  MEASURES,
  type SubjectDay,
  type UnusualMeasure,
  WEEKS,
} from '../../src/domain/unusual.ts';

const TIMES = 3;
const NOTHING: DayFigures = {
  spend: 0,
  requests: 0,
  refused: 0,
  failed: 0,
  served: 0,
  duration_ms: 0,
};

const add = (sums: readonly DayFigures[]): DayFigures =>
  sums.reduce(
    (all, each) => ({
      spend: all.spend + each.spend,
      requests: all.requests + each.requests,
      refused: all.refused + each.refused,
      failed: all.failed + each.failed,
      served: all.served + each.served,
      duration_ms: all.duration_ms + each.duration_ms,
    }),
    NOTHING,
  );

const figures = (more: Partial<DayFigures>): DayFigures => ({ ...NOTHING, ...more });

/** A company with the same figure in each of the last weeks, oldest last. */
function company(today: Partial<DayFigures>, ...weeks: Partial<DayFigures>[]): SubjectDay {
  return {
    subject: 'company',
    key: null,
    model: null,
    today: figures(today),
    weeks: weeks.map((week, at) => ({
      day: addDays('2026-11-28', -7 * (at + 1)),
      figures: figures(week),
    })),
    days: [],
  };
}

const spent = (...spends: number[]) => spends.map((spend) => ({ spend }));

t.test('what is far above the same hours of the last weeks is unusual', async (t) => {
  const judge = (subject: SubjectDay, measure: UnusualMeasure = 'spend', times = TIMES) =>
    compare(measure, subject, times, new Set());
  t.same(judge(company({ spend: 81 }, ...spent(1, 0.7, 1.2, 0.9))), { value: 81, usual: 0.95 });
  t.equal(
    judge(company({ spend: 2.9 }, ...spent(1, 1, 1, 1))),
    null,
    'above three times, below the floor',
  );
  t.equal(judge(company({ spend: 290 }, ...spent(100, 100, 100))), null, 'below three times');
  t.ok(judge(company({ spend: 290 }, ...spent(100, 100, 100)), 'spend', 2), 'another threshold');
  t.equal(judge(company({ spend: 81 }, ...spent(1, 1))), null, 'two weeks are too few: it is new');
  t.equal(judge(company({ spend: 81 })), null, 'a new company');
  t.equal(judge(company({ spend: 81 }, ...spent(1, 90, 1, 1))), null, 'it was there before');
  t.equal(judge(company({ spend: 60 }, ...spent(2, 30, 16, 5, 17, 28))), null, 'a wide spread');
  t.equal(judge(company({ spend: 1 }, ...spent(100, 100, 100))), null, 'less is not unusual');
  const now = { requests: 1000, served: 900, refused: 100, failed: 60, duration_ms: 9_000_000 };
  const before = { requests: 1000, served: 998, refused: 2, failed: 1, duration_ms: 998_000 };
  t.same(judge(company(now, before, before, before), 'refused'), { value: 100, usual: 2 });
  t.same(judge(company(now, before, before, before), 'failed'), { value: 60, usual: 1 });
  t.same(judge(company(now, before, before, before), 'latency'), { value: 10_000, usual: 1000 });
  t.equal(
    judge(company({ ...now, requests: 3000 }, before, before, before), 'refused'),
    null,
    'few of many',
  );
  t.equal(
    judge(company({ ...now, served: 20 }, before, before, before), 'latency'),
    null,
    'too few calls',
  );
  t.equal(
    judge(company(now, before, before, { served: 3, duration_ms: 3 }), 'latency'),
    null,
    'a week of three calls says nothing of latency',
  );
});

t.test('a key that works on some days alone is compared with all of them', async (t) => {
  const on = (spend: number) => ({
    ...company({ spend: 30 }, ...spent(0, 0, 0, 0)),
    days: [{ day: '2026-11-22', spend }],
  });
  t.equal(compare('spend', on(35), TIMES, new Set()), null);
  t.ok(compare('spend', on(9), TIMES, new Set()));
  t.ok(compare('spend', on(35), TIMES, new Set(['2026-11-22'])), 'but for those that were unusual');
});

const jump = (more: Partial<Jump>): Jump => ({
  measure: 'spend',
  subject: 'company',
  key: null,
  model: null,
  value: 81,
  usual: 1,
  ...more,
});

t.test('a jump of a company, its key and its model is told once, and names both', async (t) => {
  const calm = spent(1, 1, 1, 1);
  const whole = company({ spend: 81 }, ...calm);
  const key: SubjectDay = { ...whole, subject: 'key', key: 'k', today: figures({ spend: 80 }) };
  const model: SubjectDay = {
    ...whole,
    subject: 'model',
    model: 'm',
    today: figures({ spend: 79 }),
  };
  const parts: KeyModelFigures[] = [
    { ...figures({ spend: 79 }), key: 'k', model: 'm' },
    { ...figures({ spend: 1 }), key: 'k', model: 'n' },
    { ...figures({ spend: 1 }), key: 'other', model: 'n' },
  ];
  const today = '2026-11-28';
  const told = (subjects: SubjectDay[], found: FoundJump[] = []) =>
    jumpsOf(today, subjects, parts, TIMES, found)
      .filter(({ isTold }) => isTold)
      .map(({ subject, key, model, value }) => `${subject} ${key} ${model} ${value}`);
  t.same(told([model, key, whole]), ['company k m 81']);
  t.equal(jumpsOf(today, [model, key, whole], parts, TIMES, []).length, 3, 'each is marked');
  t.same(told([model, key]), ['key k m 80'], 'where the company is as usual');
  const own = { subject: 'key', key: 'k', model: 'm', value: 20 } as const;
  t.same(told([whole, key], [{ ...jump(own), day: today }]), [], 'told in the morning');
  t.same(told([whole], [{ ...jump({ key: 'k', model: 'm', value: 50 }), day: '2026-11-27' }]), []);
  const doubled = [{ ...jump({ key: 'k', model: 'm', value: 30 }), day: '2026-11-27' }];
  t.same(told([whole], doubled), ['company k m 81'], 'more than twice that of yesterday');
  t.same(
    told([key], [{ ...jump({ subject: 'key', key: 'z', model: 'm' }), day: today }]),
    ['key k m 80'],
    'of another key',
  );
  t.same(
    told([key], [{ ...jump({ ...own, measure: 'failed' }), day: today }]),
    ['key k m 80'],
    'of another figure',
  );
  t.same(
    told([key], [{ ...jump(own), day: '2026-11-20', value: 80 }]),
    ['key k m 80'],
    'more than a week ago',
  );
});

t.test('what many keys make together is one jump of the company', async (t) => {
  const calm = spent(10, 10, 10, 10);
  const keys = Array.from(
    { length: 20 },
    (_, at): SubjectDay => ({
      ...company({ spend: 100 }, ...calm),
      subject: 'key',
      key: `k${at}`,
    }),
  );
  const whole = company({ spend: 2000 }, ...spent(200, 200, 200, 200));
  const parts = keys.map((each): KeyModelFigures => {
    return { ...each.today, key: each.key as string, model: `m of ${each.key}` };
  });
  const jumps = jumpsOf('2026-11-28', [...keys, whole], parts, TIMES, []);
  t.equal(jumps.length, 21);
  const told = jumps.filter(({ isTold }) => isTold);
  t.match(told, [{ subject: 'company', key: null, model: null, value: 2000 }]);
  t.equal(told.length, 1);
});

t.test('what was unusual is not what is usual, unless most was', async (t) => {
  const weeks = spent(80, 1, 1, 1);
  const first = new Set(['2026-11-21']);
  t.ok(compare('spend', company({ spend: 81 }, ...weeks), TIMES, first));
  const most = new Set(['2026-11-21', '2026-11-14', '2026-11-07']);
  t.equal(compare('spend', company({ spend: 81 }, ...spent(80, 80, 80, 1)), TIMES, most), null);
});

/** Traffic of two months: 30 companies of many sizes, with keys that work on weekdays, all days, or some days alone. */
const FIRST = '2026-09-07';
const DAYS = 62;
const HOLIDAY = '2026-10-26'; // a Monday
const PLANTED = 40;

const isWeekend = (at: number) => [0, 6].includes(new Date(addDays(FIRST, at)).getUTCDay());

interface Traffic {
  /** By key and model: of each day the figures up to each hour. */
  readonly cells: ReadonlyMap<string, readonly (readonly DayFigures[])[]>;
}

t.test('40 jumps in 30 companies of two months, and 40 calm days', async (t) => {
  const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
  t.comment(`FUZZ_SEED=${seed}`);
  let state = seed + 1;
  const random = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const noise = (sigma: number) => Math.exp(sigma * normal());
  const companies = Array.from({ length: 30 }, (_, at) => traffic(0.7 * 1.25 ** at));

  function traffic(eur: number): Traffic {
    const cells = new Map<string, DayFigures[][]>();
    const keys = 1 + Math.floor(random() * 4);
    for (let key = 0; key < keys; key++) {
      const kind =
        key === 0 ? 'work' : (['work', 'all', 'some'] as const)[Math.floor(random() * 3)];
      for (let model = 0; model < 1 + Math.floor(random() * 2); model++) {
        const price = 0.002 * noise(0.5);
        const seconds = 1 + 3 * random();
        const share = (eur / keys) * noise(0.5);
        const days = Array.from({ length: DAYS }, (_, at) => {
          const day = addDays(FIRST, at);
          const weekday = new Date(day).getUTCDay();
          const isFree = weekday === 0 || weekday === 6 || day === HOLIDAY;
          const level =
            kind === 'all' ? 1 : kind === 'some' ? (random() < 0.25 ? 2 : 0) : isFree ? 0.08 : 1;
          const ofDay = level * noise(0.35);
          let until = NOTHING;
          const hours = Array.from({ length: 24 }, (_, hour) => {
            const isOffice = hour >= 8 && hour < 18;
            const spend =
              (share / 24) * ofDay * (kind === 'all' || isOffice ? 1.6 : 0.4) * noise(0.4);
            const requests = Math.round(spend / price);
            const refused = Math.round(requests * 0.01 * noise(0.8));
            const failed = Math.round(requests * 0.005 * noise(0.8));
            const served = requests - refused;
            const duration_ms = served * seconds * 1000 * noise(0.2);
            until = add([until, { spend, requests, refused, failed, served, duration_ms }]);
            return until;
          });
          return [NOTHING, ...hours];
        });
        cells.set(`key${key} model${model}`, days);
      }
    }
    return { cells };
  }

  /** What a look at a day up to an hour tells. */
  function look(
    { cells }: Traffic,
    at: number,
    hour: number,
    planted: ReadonlyMap<string, DayFigures>,
  ) {
    const names = [...cells.keys()].map((name) => name.split(' ') as [string, string]);
    const ofToday = (name: string) => {
      const base = cells.get(name)?.[at]?.[hour] ?? NOTHING;
      const more = planted.get(name);
      return more === undefined ? base : add([base, more]);
    };
    const subjectOf = (subject: SubjectDay['subject'], name: string | null): SubjectDay => {
      const own = names
        .filter(
          ([key, model]) => subject === 'company' || (subject === 'key' ? key : model) === name,
        )
        .map((each) => each.join(' '));
      const until = (day: number, hours: number) =>
        add(own.map((each) => cells.get(each)?.[day]?.[hours] ?? NOTHING));
      const weeks = Array.from({ length: WEEKS }, (_, week) => at - 7 * (week + 1)).filter(
        (day) => day >= 0,
      );
      return {
        subject,
        key: subject === 'key' ? name : null,
        model: subject === 'model' ? name : null,
        today: add(own.map(ofToday)),
        weeks: weeks.map((day) => ({ day: addDays(FIRST, day), figures: until(day, hour) })),
        days: Array.from({ length: 7 * WEEKS }, (_, back) => at - back - 1)
          .filter((day) => day >= 0 && isWeekend(day) === isWeekend(at))
          .map((day) => ({ day: addDays(FIRST, day), spend: until(day, hour).spend })),
      };
    };
    const keys = [...new Set(names.map(([key]) => key))];
    const models = [...new Set(names.map(([, model]) => model))];
    const subjects = [
      subjectOf('company', null),
      ...keys.map((key) => subjectOf('key', key)),
      ...models.map((model) => subjectOf('model', model)),
    ];
    const parts = names.map(
      ([key, model]): KeyModelFigures => ({ key, model, ...ofToday(`${key} ${model}`) }),
    );
    return jumpsOf(addDays(FIRST, at), subjects, parts, TIMES, []).filter(({ isTold }) => isTold);
  }

  const pick = <T>(all: readonly T[]) => all[Math.floor(random() * all.length)] as T;
  let found = 0;
  const missed: string[] = [];
  const wrong: string[] = [];
  const tell = ({ measure, subject, value, usual }: Jump) =>
    `${measure} of a ${subject}: ${value.toFixed(1)}, usually ${usual.toFixed(1)}`;
  for (let planted = 0; planted < PLANTED; planted++) {
    const measure = MEASURES[planted % MEASURES.length] as UnusualMeasure;
    const company = pick(measure === 'latency' ? companies.slice(15) : companies);
    const at = DAYS - 1 - Math.floor(random() * 14);
    const hour = 10 + Math.floor(random() * 13);
    // what has calls today, each week, and in these hours: of others nothing is known
    const isBusy = (name: string) => {
      const days = company.cells.get(name) ?? [];
      const served = (day: number) => days[day]?.[hour]?.served ?? 0;
      return served(at) >= 100 && [1, 2, 3, 4, 5, 6].every((week) => served(at - 7 * week) >= 20);
    };
    const names = [...company.cells.keys()].filter((name) => measure !== 'latency' || isBusy(name));
    if (names.length === 0) {
      planted--; // another company, or another day
      continue;
    }
    const name = pick(names);
    // what is added: in EUR and requests never less than three times the least that is told
    const whole = add([...company.cells.values()].map((days) => days[at]?.[hour] ?? NOTHING));
    const many = Math.round(Math.max(150, whole.requests * 0.5) * (1 + random()));
    const more = {
      spend: {
        spend: Math.max(25, whole.spend * 5) * (1 + random()),
        requests: 100,
        served: 100,
        duration_ms: 200_000,
      },
      refused: { requests: many, refused: many },
      failed: { requests: many, failed: many, served: many, duration_ms: many * 1000 },
      latency: {},
    }[measure];
    const [key, model] = name.split(' ');
    // a model that is slow is slow for each key
    const slow = [...company.cells]
      .filter(([each]) => each.endsWith(` ${model}`))
      .map(
        ([each, days]) =>
          [each, figures({ duration_ms: (days[at]?.[hour]?.duration_ms ?? 0) * 7 })] as const,
      );
    const told = look(
      company,
      at,
      hour,
      new Map(measure === 'latency' ? slow : [[name, figures(more)]]),
    );
    const isIt = (each: Jump) =>
      each.measure === measure &&
      (each.key === key || each.model === model || each.subject === 'company');
    if (told.some(isIt)) found++;
    else missed.push(`${measure} ${name} ${JSON.stringify(more)}`);
    const others = told.filter(
      (each) => !isIt(each) && !(measure === 'failed' && each.measure === 'latency'),
    );
    if (others.length > 0) wrong.push(...others.map(tell));
  }
  // the holiday, weekends, the days after, and others
  const calm = [DAYS - 13, DAYS - 12, DAYS - 8, DAYS - 7, DAYS - 6, DAYS - 5];
  for (let each = 0; each < PLANTED; each++) {
    const at = calm[each % calm.length] as number;
    wrong.push(...look(pick(companies), at, 8 + Math.floor(random() * 16), new Map()).map(tell));
  }
  t.comment(`found ${found} of ${PLANTED}, missed ${missed.length}, false ${wrong.length}`);
  t.ok(found >= 37, missed.join('; '));
  t.ok(wrong.length <= 4, wrong.join('; '));
});
