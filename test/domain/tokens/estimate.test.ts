import t, { type Test } from 'tap';
import { Estimator, type Generated, NOTHING_SEEN } from '../../../src/domain/tokens/estimate.ts';
import { keepPrompt, type Prompt } from '../../../src/domain/tokens/prompt.ts';
import type { Admission } from '../../../src/domain/usage.ts';
import { TextSample } from '../../../src/json/text-sample.ts';

/** An answer of these events. */
function answer(...texts: readonly string[]): Generated {
  const sample = new TextSample();
  let size = 0;
  for (const text of texts) {
    const bytes = Buffer.from(JSON.stringify(text).slice(1, -1));
    size += bytes.length;
    if (size > sample.due) sample.add(bytes, 0, bytes.length, size);
  }
  return { textEvents: texts.length, generatedBytes: size, sample };
}

const WORDS = ' the river runs through the old town and many people come to see it each day'.split(
  /(?= )/,
);
const words = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => WORDS[n % WORDS.length] as string);
const chunks = (count: number, size: number): string[] =>
  Array.from({ length: count }, () => words(size).join(''));
const prompt = (text: string): Prompt =>
  keepPrompt([
    Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: text }] })),
  ]);
const SHORT = prompt('Where does the river go?');
const HUNDRED = prompt(words(100).join(''));

/** A call of a model, by a company. */
const call = (upstream = 'm', at = 0, companyId = 'one'): Admission =>
  ({ payer: { companyId }, model: { upstream }, at }) as Admission;

const near = (t: Test, found: number, wanted: number): boolean =>
  t.ok(Math.abs(found - wanted) <= Math.max(3, wanted / 10), `${found}, not far from ${wanted}`);

t.test('untaught, an event of a word is a token, however the text is counted', async (t) => {
  const estimator = new Estimator();
  t.equal(estimator.estimate(call(), SHORT, answer(...words(500))).completion, 500);
  const halves = words(500)
    .flatMap((word) => [word.slice(0, 2), word.slice(2)])
    .filter((half) => half !== '');
  t.equal(
    estimator.estimate(call(), SHORT, answer(...halves)).completion,
    halves.length,
    'a small vocabulary',
  );
});

t.test('untaught, events of several words are counted by their text', async (t) => {
  const estimator = new Estimator();
  near(t, estimator.estimate(call(), SHORT, answer(...chunks(100, 6))).completion, 600);
  near(t, estimator.estimate(call(), SHORT, answer(...chunks(1, 5000))).completion, 5000);
  near(
    t,
    estimator.estimate(call(), SHORT, { ...answer(words(400).join('')), textEvents: 0 }).completion,
    400,
  );
});

t.test('a text that changes its kind is counted by all of it', async (t) => {
  const digits = Array.from({ length: 300 }, (_, n) => `${1000 + n},`); // three tokens each
  near(
    t,
    new Estimator().estimate(call(), SHORT, answer(...chunks(50, 6), ...digits)).completion,
    300 + 900,
  );
});

t.test('nothing generated is nothing', async (t) => {
  const estimator = new Estimator();
  t.equal(estimator.estimate(call(), SHORT, NOTHING_SEEN).completion, 0);
  t.equal(estimator.estimate(call(), SHORT, answer('')).completion, 0, 'the role alone');
});

t.test('a model’s own calls teach how it counts, and each model has its own way', async (t) => {
  const estimator = new Estimator();
  const text = answer(...chunks(40, 7));
  const long = prompt(words(300).join(''));
  const untaught = estimator.estimate(call(), long, text);
  for (let n = 0; n < 8; n++) {
    estimator.learn(call('m', n * 10), long, text, {
      prompt: untaught.prompt * 2,
      completion: untaught.completion * 3,
    });
  }
  const taught = estimator.estimate(call(), long, answer(...chunks(20, 14)));
  near(t, taught.prompt, untaught.prompt * 2);
  near(t, taught.completion, untaught.completion * 3);
  t.same(estimator.estimate(call('other'), long, text), untaught);
  t.same(
    estimator.estimate(call('m', 0, 'other'), long, text),
    untaught,
    'calls of a company teach nothing of others',
  );
});

t.test('of events and text, what told the last calls better decides', async (t) => {
  const byEvents = new Estimator();
  const byText = new Estimator();
  for (let n = 0; n < 8; n++) {
    const wild = chunks(50, 3 + ((n * 5) % 7));
    byEvents.learn(call('m', n * 10), SHORT, answer(...wild), { prompt: 9, completion: 50 }); // whatever an event holds
    byText.learn(call('m', n * 10), SHORT, answer(...wild), {
      prompt: 9,
      completion: wild.join('').split(' ').length - 1,
    });
  }
  t.equal(byEvents.estimate(call(), SHORT, answer(...chunks(30, 9))).completion, 30);
  near(t, byText.estimate(call(), SHORT, answer(...chunks(30, 9))).completion, 270);
});

t.test(
  'events that were never counted do not decide: answers not streamed, or of a few large events, teach the text',
  async (t) => {
    for (const textEvents of [0, 3]) {
      const estimator = new Estimator();
      for (let n = 0; n < 8; n++) {
        const tokens = 100 + 20 * (n % 3);
        const lesson = { ...answer(...chunks(3, 40)), textEvents };
        estimator.learn(call('m', n * 10), SHORT, lesson, { prompt: 9, completion: tokens });
      }
      near(t, estimator.estimate(call(), SHORT, answer(...chunks(3, 40))).completion, 119);
    }
  },
);

t.test('after the first lessons a call teaches every five seconds at most', async (t) => {
  const estimator = new Estimator();
  const lesson = (at: number, tokens: number): void =>
    estimator.learn(call('m', at), HUNDRED, NOTHING_SEEN, { prompt: tokens, completion: 0 });
  for (let n = 0; n < 8; n++) lesson(930 + 10 * n, 100);
  t.equal(estimator.estimate(call(), HUNDRED, NOTHING_SEEN).prompt, 100);
  lesson(5999, 300);
  t.equal(estimator.estimate(call(), HUNDRED, NOTHING_SEEN).prompt, 100);
  lesson(6000, 300);
  t.ok(estimator.estimate(call(), HUNDRED, NOTHING_SEEN).prompt > 120);
});

t.test('of the calls of all companies one teaches every ten milliseconds at most', async (t) => {
  const estimator = new Estimator();
  const lesson = (at: number, company: string): void =>
    estimator.learn(call('m', at, company), HUNDRED, NOTHING_SEEN, { prompt: 300, completion: 0 });
  lesson(1000, 'one');
  lesson(1009, 'two');
  lesson(1010, 'three');
  const learned = ['one', 'two', 'three'].map(
    (company) => estimator.estimate(call('m', 0, company), HUNDRED, NOTHING_SEEN).prompt === 300,
  );
  t.same(learned, [true, false, true]);
});

t.test(
  'calls whose counts are far below ours make the text of later ones no cheaper than it can be',
  async (t) => {
    const estimator = new Estimator();
    const text = answer(...chunks(1, 500));
    const long = prompt(words(3000).join(''));
    const untaught = estimator.estimate(call(), long, text);
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };
    const images = keepPrompt([
      Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: Array(80).fill(image) }] })),
    ]);
    const letters = { ...answer('a'.repeat(4000)), textEvents: 0 };
    for (let n = 0; n < 8; n++) {
      estimator.learn(call('m', n * 10), images, letters, { prompt: 165, completion: 500 });
    }
    const taught = estimator.estimate(call(), long, text);
    t.ok(taught.prompt > 0.45 * untaught.prompt, `${taught.prompt} of ${untaught.prompt}`);
    t.ok(
      taught.completion > 0.45 * untaught.completion,
      `${taught.completion} of ${untaught.completion}`,
    );
  },
);

t.test(
  'files that are far larger than they look make the text of later calls no dearer than it can be',
  async (t) => {
    const estimator = new Estimator();
    const long = prompt(words(3000).join(''));
    const untaught = estimator.estimate(call(), long, NOTHING_SEEN).prompt;
    const file = { type: 'file', file: { file_data: 'https://files.example/annual-report.pdf' } };
    const report = keepPrompt([
      Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: [file] }] })),
    ]);
    for (let n = 0; n < 8; n++)
      estimator.learn(call('m', n * 10), report, NOTHING_SEEN, { prompt: 150_000, completion: 9 });
    const taught = estimator.estimate(call(), long, NOTHING_SEEN).prompt;
    t.ok(taught < untaught * 5, `${taught} of ${untaught}`);
  },
);

t.test('a prompt of any size has a token at least', async (t) => {
  t.equal(
    new Estimator().estimate(call(), keepPrompt([Buffer.from('{"input":""}')]), NOTHING_SEEN)
      .prompt,
    1,
  );
});

/** Teaches a model by calls 10 ms apart. */
function taught(
  lessons: readonly (readonly [Generated, completion: number, reasoning?: number | null])[],
): Estimator {
  const estimator = new Estimator();
  for (const [n, [generated, completion, reasoning]] of lessons.entries()) {
    estimator.learn(call('m', n * 10), SHORT, generated, { prompt: 9, completion }, reasoning);
  }
  return estimator;
}
const FIVE: Generated = { ...answer(' the river runs through town'), textEvents: 0 };

t.test('hidden reasoning is learned as tokens of its own, not as a weight of words', async (t) => {
  for (const reasoning of [null, 0, 3995]) {
    const estimator = taught(Array.from({ length: 3 }, () => [FIVE, 4000, reasoning] as const));
    near(t, estimator.estimate(call(), SHORT, answer(...words(500))).completion, 4495);
    near(t, estimator.estimate(call(), SHORT, answer(...words(3000))).completion, 6995);
    t.equal(
      estimator.estimate(call(), SHORT, answer(...words(500)), 300).completion,
      300,
      'no more than the limit',
    );
    t.equal(
      estimator.estimate(call(), SHORT, NOTHING_SEEN).completion,
      0,
      'nothing seen is nothing',
    );
  }
});

t.test('reasoning that was sent is text like any other', async (t) => {
  const thought = answer(...words(500));
  const estimator = taught(Array.from({ length: 5 }, () => [thought, 500, 450] as const));
  near(t, estimator.estimate(call(), SHORT, answer(...words(200))).completion, 200);
});

t.test('one figure that is false teaches nothing that lasts', async (t) => {
  const text = answer(...words(100));
  const honest: readonly [Generated, number] = [text, 100];
  for (const lie of [1e7, 9e6, 5000]) {
    for (const at of [0, 1, 2, 3]) {
      const lessons = [honest, honest, honest].toSpliced(at, 0, [text, lie]);
      near(t, taught(lessons).estimate(call(), SHORT, text).completion, 100);
      near(t, taught(lessons.slice(0, at + 2)).estimate(call(), SHORT, text).completion, 100);
    }
  }
});

t.test('events tell no more tokens than their text can have', async (t) => {
  const estimator = new Estimator();
  for (let n = 0; n < 8; n++) {
    estimator.learn(call('m', n * 10), SHORT, answer(...chunks(20, 200)), {
      prompt: 9,
      completion: 4000,
    });
  }
  t.ok(estimator.estimate(call(), SHORT, answer(...words(1000))).completion <= 4000 * 1.2);
});

t.test('a prompt that was told far above its text teaches nothing of prompts', async (t) => {
  const estimator = new Estimator();
  for (let n = 0; n < 8; n++)
    estimator.learn(call('m', n * 10), SHORT, NOTHING_SEEN, { prompt: 1e6, completion: 0 });
  const untaught = new Estimator().estimate(call(), HUNDRED, NOTHING_SEEN).prompt;
  t.equal(estimator.estimate(call(), HUNDRED, NOTHING_SEEN).prompt, untaught);
});
