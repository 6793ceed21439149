import t from 'tap';
import { OwnBody } from '../../../src/domain/request/own-body.ts';

const member = (name: string) => ({ name, valueStart: 0, valueEnd: 0 });
const SENT = {
  model: 'internal',
  store: false,
  messages: [{ content: [{ text: 'x' }] }, { content: 'y' }],
  'x-y': {},
};
const body = (names: readonly string[], isRun = false) =>
  new OwnBody(names.map(member), [Buffer.from(JSON.stringify(SENT))], isRun);
const own = body(['model', 'messages', 'x-y', 'stream_options']);

t.test('a path is looked up in each form that upstreams write', async (t) => {
  for (const path of [
    'messages[0].content[0].text',
    'messages.[1].content',
    'messages.1',
    "messages[0]['content']",
    '$.messages',
    'body.messages[1]',
    'x-y',
  ])
    t.equal(own.member(path, null), path);
  for (const path of [
    'store',
    'messages[2]',
    'messages.length',
    'messages[0].constructor',
    'toString',
    '',
    ' ',
    'messages 0',
    'x'.repeat(500),
  ])
    t.equal(own.member(path, null), null, path);
  t.equal(own.member('stream_options.include_usage', null), 'stream_options');
});

t.test('of a path of a validator the innermost member of the caller counts', async (t) => {
  t.equal(own.nearest('messages.0.user.content.0.added', false), 'messages.0.content.0');
  t.equal(own.nearest('messages.0.content.0.id', true), 'messages.0.content.0.id');
  t.equal(own.nearest('messages.0.a.b', true), 'messages.0');
  t.equal(own.nearest('store', false), '');
});

t.test('in a run the messages are counted without the system prompt', async (t) => {
  const run = body(['messages', 'model_slug'], true);
  t.equal(run.member('messages[1].content', null), 'messages[0].content');
  t.equal(run.member('messages[0].content', null), null);
  t.equal(run.nearest('messages.1.content', false), 'messages.0.content');
  t.equal(run.member('model', null), 'model_slug');
});
