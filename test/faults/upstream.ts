import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Life } from './world.ts';

/** What this upstream knows of one call: estimates are compared with it. */
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
 *   text-NAME  one of TEXTS, cut into the tokens of o200k
 */
export async function trueUpstream(
  life: Life,
): Promise<{ url: string; calls: Map<string, TrueCall> }> {
  const calls = new Map<string, TrueCall>();
  const server = createServer(async (req, res) => {
    const text = Buffer.concat(await req.toArray()).toString();
    const body = JSON.parse(text) as {
      model: string;
      messages: { content: string }[];
      max_tokens?: number;
    };
    const option = (name: string, fallback: string): string =>
      new RegExp(`!${name}-(\\w+)`).exec(body.model)?.[1] ?? fallback;
    const prompt = body.messages.reduce((sum, { content }) => sum + 4 + tokensOf(content), 3);
    const call: TrueCall = { promptTokens: prompt, sent: 0, told: false, closedAt: 0 };
    calls.set(/mark-\d+-\d+-/.exec(text)?.[0] ?? '', call);
    res.on('close', () => {
      call.closedAt = Date.now();
    });
    await stream(res, call, piecesOf(option('text', 'prose')), {
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

async function stream(
  res: ServerResponse,
  call: TrueCall,
  source: readonly string[],
  manner: Manner,
): Promise<void> {
  const { perEvent, pace, length, silent, tool } = manner;
  const event = (choices: unknown[], usage?: object): string =>
    `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'internal-true', choices, ...(usage && { usage }) })}\n\n`;
  const delta = (content: object, finish: string | null = null): string =>
    event([{ index: 0, delta: content, finish_reason: finish }]);
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.write(delta({ role: 'assistant', content: '' }));
  for (let at = 0; at < length; ) {
    const count = Math.min(
      length - at,
      perEvent === 1 ? 1 : 1 + Math.floor(Math.random() * (2 * perEvent - 1)),
    );
    let piece = '';
    for (let n = 0; n < count; n++) piece += source[(at + n) % source.length];
    if (res.destroyed) return;
    res.write(
      delta(
        tool ? { tool_calls: [{ index: 0, function: { arguments: piece } }] } : { content: piece },
      ),
    );
    at += count;
    call.sent = at;
    await sleep(pace); // paced traffic
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

/** The tokens of a text, as the upstream generates them one by one. */
function piecesOf(name: string): string[] {
  const text = TEXTS[name] as string;
  let at = 0;
  return Array.from(TOKEN_LENGTHS[name] as string, (length) => {
    const from = at;
    at += Number.parseInt(length, 36);
    return text.slice(from, at);
  });
}

/** Tokens of a prompt of the words of TEXTS.prose, and of the mark that names its call. */
function tokensOf(text: string): number {
  if (text.startsWith('mark-')) return text.match(/\d{1,3}|\D+/g)?.length ?? 0;
  return text.split(/\s+/).reduce((sum, word) => sum + (WORD_TOKENS[word] ?? 1), 0);
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
  german: `Am frühen Nachmittag kam der Ausschuss wieder zusammen, und eine Weile sprach niemand von der Brücke. Dann öffnete die
Ingenieurin vom Kreisbauamt ihre Mappe und las die Zahlen vor: zweiundvierzig Meter, zwei Pfeiler, elf Monate, wenn das Wetter
hält. „Es wird nicht halten“, sagte der Bürgermeister, der hier Landwirt gewesen war, bevor er irgendetwas anderes wurde.`,
  python: `def merge(left: list[int], right: list[int]) -> list[int]:
    """Merge two sorted lists; equal items keep their order."""
    result = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]
`,
  table: `| Month | Requests | Tokens in | Cost (EUR) | Note |
|:------|---------:|----------:|-----------:|------|
| 2026-08 | 1,204,551 | 981,220,114 | 1,932.40 | price of the small model cut |
| 2026-09 | 1,377,020 | 1,112,905,310 | 2,104.87 | |
| 2026-10 | 1,502,338 | 1,240,113,902 | 2,377.16 | two new customers |
`,
};

/**
 * Counts of a real tokenizer, OpenAI's o200k_base: the length of each token of TEXTS in
 * UTF-16 units, one base-36 digit each (0: the first half of a character), and the words of
 * TEXTS.prose that take more than one token with the space before them.
 */
const TOKEN_LENGTHS: Readonly<Record<string, string>> = {
  prose:
    '3a46346a144267664715495139774745486164714331773481412254525461445257349515767161944636138547378754664333341',
  code: '69651736174723167172251423221112211122573226712333213673212573522362227552313357562312371454611317722',
  chinese: '3122111112111111121312122121122112112101322121211',
  tool: '24313343243311212342111232112242444331121234212321124251343162',
  german:
    '27b4473791453378443415444154246335424447415343615441471547113122567264e14551384163723861',
  python:
    '365154261542354334547616656653724322221113622451422463735213623b77523b23111752b77623b2311137725222623',
  table:
    '1629273252312531161911a11b116211311221113132131313211131226346643113112211131321113131321113122311311221113132111313132111312244a3',
};

const WORD_TOKENS: Readonly<Record<string, number>> = {
  'afternoon,': 2,
  'bridge.': 2,
  'aloud:': 2,
  'forty-two': 2,
  'metres,': 2,
  'piers,': 3,
  'held.': 2,
  '"It': 2,
  'hold,"': 2,
  'mayor,': 2,
  farmed: 2,
  'else.': 2,
  'gravel,': 2,
  'steel;': 2,
  'was.': 2,
};
