import { Writable } from 'node:stream';
import t from 'tap';
import type { Admission } from '../../../src/domain/usage.ts';
import { UsageNotes } from '../../../src/gateway/request/usage-notes.ts';
import { createLog } from '../../../src/log.ts';

t.test('of a usage with names without number twenty are noted, once', async (t) => {
  const logged: string[] = [];
  const write = (line: unknown, _: string, done: () => void): void => {
    logged.push(String(line));
    done();
  };
  const notes = new UsageNotes(createLog({ level: 'warn' }, new Writable({ write })));
  const admission = { requestId: 'r', model: { slug: 'm' } } as Admission;
  const unread = Array.from({ length: 1000 }, (_, i) => `of_${i}_tokens`);
  const usage = { prompt: 1, completion: 1, details: null, unread };
  for (let i = 0; i < 3; i++) notes.note(admission, usage);
  notes.note(admission, { ...usage, unread: ['of_later_tokens', 'not a name'] });
  t.equal(notes.unread[0]?.members.length, 20);
  t.equal(logged.length, 1);
});
