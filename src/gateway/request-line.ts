import { IsoTime } from '../domain/iso.ts';
import type { Clock } from '../domain/ports.ts';
import type { Outcome, Tokens } from '../domain/usage.ts';
import type { LineSink } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Reply } from './reply.ts';

/** What the log and the metrics tell of one request; gathered on its way, told when its answer has left. */
export class RequestLine {
  readonly reply: Reply;
  readonly began = performance.now();
  endpoint = 'unknown';
  companyId: string | null = null;
  /** Set once the model was found: before, it is the caller's text, and could be anything. */
  slug: string | null = null;
  /** How the call ended, once a model was admitted. */
  account: { readonly outcome: Outcome | null; readonly tokens: Tokens | null } | null = null;

  constructor(reply: Reply) {
    this.reply = reply;
  }
}

/** One line per request: never a key, a prompt or an internal name. */
export class RequestLog {
  readonly #sink: LineSink | null;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #iso = new IsoTime();

  constructor(sink: LineSink | null, metrics: Metrics, clock: Clock) {
    this.#sink = sink;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  tell(line: RequestLine): void {
    const ms = performance.now() - line.began;
    const { status, requestId } = line.reply;
    this.#metrics.answered(line.endpoint, status, ms / 1000);
    if (this.#sink === null) return;
    const { account } = line;
    // every value is ours and plain, but for the slug
    let text = `{"level":30,"time":"${this.#iso.of(this.#clock())}","request_id":"${requestId}","endpoint":"${line.endpoint}","status":${status},"ms":${ms.toFixed(1)}`;
    if (line.companyId !== null) text += `,"company":"${line.companyId}"`;
    if (line.slug !== null) text += `,"slug":${JSON.stringify(line.slug)}`;
    if (account !== null && account.outcome !== null) {
      text += `,"outcome":"${account.outcome}"`;
      if (account.tokens !== null) {
        text += `,"prompt_tokens":${account.tokens.prompt},"completion_tokens":${account.tokens.completion}`;
      }
    }
    this.#sink(`${text}}\n`);
  }
}
