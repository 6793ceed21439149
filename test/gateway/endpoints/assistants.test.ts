import t from 'tap';
import { promptPieces } from '../../../src/domain/assistant.ts';
import { STORED_FILES } from '../../../src/domain/request/stateless.ts';
import { assistantRun } from '../../../src/gateway/endpoints/assistants.ts';
import { RequestBody } from '../../../src/gateway/request/body.ts';
import type { Services } from '../../../src/gateway/request/services.ts';
import { parseObject } from '../../../src/json/parser.ts';

const MOST_BYTES = 262_144; // of a piece, so that others have their turn

/** What a run of an assistant with this prompt sends upstream, in pieces. */
async function sent(prompt: readonly Buffer[]): Promise<readonly Buffer[]> {
  const assistant = { prompt, modelSlug: 'fast', temperature: 0.5, maxTokens: null };
  const services = {
    directory: { assistant: () => assistant },
    settings: { costCenterMember: null },
    calendar: { date: () => '2026-11-23' },
    clock: () => 0,
  };
  const bytes = Buffer.from('{"messages":[{"role":"user","content":"Hello"}]}');
  const body = new RequestBody([bytes], bytes.length, parseObject(bytes, STORED_FILES));
  const call = await assistantRun.read(
    services as unknown as Services,
    body,
    'company',
    'id',
    {} as never,
  );
  return call.forward(Buffer.from('"internal-fast"'));
}

t.test('a run sends the prompt and the date before the messages of the caller', async (t) => {
  for (const [prompt, before] of [
    ['  Say "Ä" and \\.\n', 'Say "Ä" and \\.\n\n'],
    ['', ''],
    ['Sätze. '.repeat(150_000), `${'Sätze. '.repeat(150_000).trim()}\n\n`],
  ] as const) {
    t.same(JSON.parse(Buffer.concat(await sent(promptPieces(prompt))).toString()), {
      model: 'internal-fast',
      messages: [
        { role: 'system', content: `${before}Current date: 2026-11-23` },
        { role: 'user', content: 'Hello' },
      ],
      temperature: 0.5,
    });
  }
});

t.test(
  'runs share the bytes of the prompt: however many are under way, there is one of them',
  async (t) => {
    const prompt = promptPieces('x'.repeat(1_000_000));
    const runs = [await sent(prompt), await sent(prompt)];
    for (const pieces of runs) {
      const own = pieces.filter((piece) => !prompt.includes(piece));
      t.ok(Buffer.concat(own).length < 1000);
      t.ok(pieces.every(({ length }) => length <= MOST_BYTES));
    }
  },
);
