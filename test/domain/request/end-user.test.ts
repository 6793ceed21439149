import t from 'tap';
import {
  endUserInBody,
  endUserInHeaders,
  endUserName,
} from '../../../src/domain/request/end-user.ts';
import type { ParsedObject } from '../../../src/json/members.ts';
import { parseObject } from '../../../src/json/parser.ts';

t.test('a name is 1 to 256 bytes that can be seen, in one spelling', async (t) => {
  t.equal(endUserName('  4711 '), '4711');
  t.equal(endUserName('Zoe\u0308'), 'Zoë', 'accents joined to their letters');
  t.equal(endUserName('ü'.repeat(128)), 'ü'.repeat(128));
  for (const text of [
    '',
    '  ',
    'a'.repeat(257),
    'ü'.repeat(129),
    'a\nb',
    'a\u0000b',
    'a\u200bb',
    '\ud800',
  ]) {
    t.equal(endUserName(text), null, JSON.stringify(text).slice(0, 20));
  }
});

t.test('the first of the headers that has a value names the person', async (t) => {
  const names = ['x-first', 'x-second'];
  const named = (...raw: string[]) => endUserInHeaders(names, raw);
  t.equal(named('X-Second', 'bob', 'X-First', 'ann'), 'ann', 'in the order of the setting');
  t.equal(named('x-second', 'bob', 'x-first', ' '), 'bob');
  t.equal(named('x-third', 'bob'), null);
  t.equal(named('x-first', 'ann', 'x-first', 'ann'), 'ann');
  t.equal(named('x-first', 'ann', 'x-first', 'bob'), null, 'two people are nobody');
  t.equal(named('x-first', 'Zo%C3%AB%20K'), 'Zoë K', 'percent-encoded');
  t.equal(named('x-first', Buffer.from('Zoë').toString('latin1')), 'Zoë', 'bytes of UTF-8');
  t.equal(named('x-first', '100%'), '100%', 'no percent-encoding');
  for (const value of ['%ff', 'Zoë', 'a%00b', 'a'.repeat(257)]) {
    t.equal(named('x-first', value, 'x-second', 'bob'), null, `${value.slice(0, 9)} names nobody`);
  }
});

t.test('a template that nobody filled in, or a word for none, says nothing', async (t) => {
  const named = (first: string) =>
    endUserInHeaders(['x-first', 'x-second'], ['x-first', first, 'x-second', 'bob']);
  for (const text of [
    '{{LIBRECHAT_USER_ID}}',
    '%7B%7BUSER_ID%7D%7D',
    '%20',
    `id-$\{USER}`,
    'undefined',
    'null',
    'None',
    '[object Object]',
  ]) {
    t.equal(named(text), 'bob', text);
    t.equal(endUserInHeaders(['x-first'], ['x-first', text]), null);
  }
  for (const name of ['Null', 'nullable', '{ann}', '$ann', 'undefined-1'])
    t.equal(named(name), name);
});

t.test('a body names a person by the member that its format has for it', async (t) => {
  const named = (isMessages: boolean, body: object | string) => {
    const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    const { members } = parseObject(bytes) as ParsedObject;
    const membersOf = (object: Buffer) => (parseObject(object) as ParsedObject).members ?? null;
    return endUserInBody(
      isMessages,
      members,
      (start, end) => bytes.subarray(start, end),
      membersOf,
    );
  };
  t.equal(named(false, { model: 'm', user: 'ann' }), 'ann');
  t.equal(named(false, { safety_identifier: 'bob', user: 'ann' }), 'ann');
  t.equal(named(false, { safety_identifier: 'bob' }), 'bob');
  for (const user of [null, '', ' ', '{{user_id}}', `$\{USER}`, 'undefined']) {
    t.equal(named(false, { user, safety_identifier: 'bob' }), 'bob', `after ${user}`);
    t.equal(named(true, { metadata: { user_id: user } }), null);
  }
  const long = { tags: 'x'.repeat(60_000), user_id: 'ann' };
  t.equal(named(true, { metadata: long }), 'ann', 'whatever else the metadata holds');
  t.equal(named(false, '{"user":"Z\\u006f\\u00eb"}'), 'Zoë');
  t.equal(named(false, { metadata: { user_id: 'ann' } }), null, 'that of another format');
  t.equal(named(true, { metadata: { user_id: 'a'.repeat(256) } }), 'a'.repeat(256));
  t.equal(named(true, { user: 'ann' }), null);
  for (const value of [7, null, '', { id: 'ann' }, 'a'.repeat(2000)]) {
    t.equal(named(false, { user: value }), null);
    t.equal(named(true, { metadata: { user_id: value } }), null);
  }
  t.equal(named(false, '{"user":"ann","user":"bob"}'), null, 'two people are nobody');
  t.equal(named(true, '{"metadata":{"user_id":"ann","user_id":"bob"}}'), null);
  t.equal(named(true, { metadata: 'ann' }), null);
});
