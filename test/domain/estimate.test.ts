import t from 'tap';
import { Estimator, type Seen } from '../../src/domain/estimate.ts';

const seen = (events: number, generatedBytes: number, promptBytes = 460): Seen => ({
  events,
  generatedBytes,
  promptBytes,
});

t.test('untaught, an event of a token’s size is a token, a larger one is several', async (t) => {
  const estimator = new Estimator();
  t.same(estimator.estimate('m', seen(101, 500)), { prompt: 100, completion: 100 });
  t.same(estimator.estimate('m', seen(11, 4000)), { prompt: 100, completion: 1000 });
  t.same(estimator.estimate('m', seen(0, 400)), { prompt: 100, completion: 100 }, 'an answer that is not streamed');
});

t.test('nothing generated is nothing', async (t) => {
  const estimator = new Estimator();
  t.equal(estimator.estimate('m', seen(0, 0)).completion, 0);
  t.equal(estimator.estimate('m', seen(1, 0)).completion, 0, 'the role alone');
});

t.test('a model’s own calls teach its rates, and each model has its own', async (t) => {
  const estimator = new Estimator();
  // three bytes a token, two tokens an event, a prompt token every 8 bytes
  for (let n = 0; n < 20; n++) estimator.learn('m', seen(103, 600, 860), { prompt: 100, completion: 200 });
  const { prompt, completion } = estimator.estimate('m', seen(51, 300, 1660));
  t.equal(prompt, 200);
  t.ok(Math.abs(completion - 100) <= 2, `${completion}`);
  t.same(estimator.estimate('other', seen(101, 500)), { prompt: 100, completion: 100 });
});

t.test('of events and bytes, what told the last calls better decides', async (t) => {
  const byEvents = new Estimator();
  const byBytes = new Estimator();
  for (let n = 0; n < 50; n++) {
    const wild = 100 + ((n * 37) % 200);
    byEvents.learn('m', seen(103, wild * 4), { prompt: 1, completion: 100 }); // a token an event, of any length
    byBytes.learn('m', seen(23 + (n % 40), 400), { prompt: 1, completion: 100 }); // events of any size
  }
  t.ok(Math.abs(byEvents.estimate('m', seen(51, 900)).completion - 50) <= 2);
  t.ok(Math.abs(byBytes.estimate('m', seen(51, 200)).completion - 50) <= 2);
});

t.test('a prompt of any size has a token at least', async (t) => {
  t.equal(new Estimator().estimate('m', seen(0, 0, 10)).prompt, 1);
});
