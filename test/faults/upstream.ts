import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { tokens } from '../../src/demo/answer.ts';
import type { Life } from './world.ts';

/** What this upstream knows of one call: the truth an estimate is held against. */
export interface TrueCall {
  readonly promptTokens: number;
  /** Tokens generated and handed to the socket while the connection was open. */
  sent: number;
  /** Whether usage left before the connection closed. */
  told: boolean;
  closedAt: number;
}

/**
 * An upstream that streams realistic text and counts what it generated until its connection
 * was closed. The model's name says how:
 *   chunks-N   N tokens per event (default 1)     pace-N   N ms between events
 *   silent     no usage, ever; the answer has `max_tokens` tokens
 *   text-NAME  prose, code, chinese or tool
 */
export async function trueUpstream(life: Life): Promise<{ url: string; calls: Map<string, TrueCall> }> {
  const calls = new Map<string, TrueCall>();
  const server = createServer(async (req, res) => {
    const text = Buffer.concat(await req.toArray()).toString();
    const body = JSON.parse(text) as { model: string; messages: { content: string }[]; max_tokens?: number };
    const option = (name: string, fallback: string): string =>
      new RegExp(`!${name}-(\\w+)`).exec(body.model)?.[1] ?? fallback;
    const prompt = body.messages.reduce((sum, { content }) => sum + 4 + tokens(content).length, 3);
    const call: TrueCall = { promptTokens: prompt, sent: 0, told: false, closedAt: 0 };
    calls.set(/mark-\d+-\d+-/.exec(text)?.[0] ?? '', call);
    res.on('close', () => {
      call.closedAt = Date.now();
    });
    const source = TEXTS[option('text', 'prose')] as string;
    await stream(res, call, tokens(source), {
      perEvent: Number(option('chunks', '1')),
      pace: Number(option('pace', '1')),
      length: body.max_tokens ?? 200,
      silent: body.model.includes('!silent'),
      tool: option('text', 'prose') === 'tool',
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  life.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, calls };
}

interface Manner {
  readonly perEvent: number;
  readonly pace: number;
  readonly length: number;
  readonly silent: boolean;
  readonly tool: boolean;
}

async function stream(res: ServerResponse, call: TrueCall, source: readonly string[], manner: Manner): Promise<void> {
  const { perEvent, pace, length, silent, tool } = manner;
  const event = (choices: unknown[], usage?: object): string =>
    `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'internal-true', choices, ...(usage && { usage }) })}\n\n`;
  const delta = (content: object, finish: string | null = null): string =>
    event([{ index: 0, delta: content, finish_reason: finish }]);
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.write(delta({ role: 'assistant', content: '' }));
  for (let at = 0; at < length; ) {
    const count = Math.min(length - at, perEvent === 1 ? 1 : 1 + Math.floor(Math.random() * (2 * perEvent - 1)));
    let piece = '';
    for (let n = 0; n < count; n++) piece += source[(at + n) % source.length];
    if (res.destroyed) return;
    res.write(delta(tool ? { tool_calls: [{ index: 0, function: { arguments: piece } }] } : { content: piece }));
    at += count;
    call.sent = at;
    await sleep(pace);
  }
  if (res.destroyed) return;
  res.write(delta({}, 'stop'));
  if (!silent) {
    res.write(
      event([], {
        prompt_tokens: call.promptTokens,
        completion_tokens: length,
        total_tokens: call.promptTokens + length,
      }),
    );
    call.told = true;
  }
  res.end('data: [DONE]\n\n');
}

export const TEXTS: Readonly<Record<string, string>> = {
  prose: `The committee met again in the early afternoon, and for a while nobody spoke about the bridge. Then the engineer from
the district office opened her folder and read the figures aloud: forty-two metres, two piers, eleven months if the weather
held. "It will not hold," said the mayor, who had farmed here before he was anything else. They argued about gravel, about
insurance and the price of steel; by evening they had agreed on almost nothing except that the ferry could not go on as it was.`,
  code: `export function merge(left: number[], right: number[]): number[] {
  const result: number[] = [];
  for (let i = 0, j = 0; i < left.length || j < right.length; ) {
    if (j >= right.length || (i < left.length && left[i]! <= right[j]!)) result.push(left[i++]!);
    else result.push(right[j++]!); // stable: the left one first
  }
  return result;
}
`,
  chinese: `委员会在下午再次开会，起初没有人谈到那座桥。后来区办公室的工程师打开文件夹，大声读出了数字：四十二米，两个桥墩，如果天气好的话需要十一个月。`,
  tool: `{"city":"Bonn","days":[{"date":"2026-11-21","high":7.5,"low":1.25,"rain":true},{"date":"2026-11-22","high":6,"low":-1,"rain":false}],"unit":"celsius"}`,
};
