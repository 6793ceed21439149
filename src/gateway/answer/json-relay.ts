import { performance } from 'node:perf_hooks';
import { GatewayError } from '../../domain/errors.ts';
import type { MaybeAsync } from '../../domain/ports.ts';
import { CHAT_ANSWER } from '../../domain/request/answer-members.ts';
import { type Generated, NOTHING_SEEN } from '../../domain/tokens/estimate.ts';
import {
  type AnswerScan,
  type AnswerText,
  scanAnswer,
  scanBeginning,
  scanEnd,
  type ToldOfCall,
} from '../../json/answer.ts';
import type { MemberTable } from '../../json/member-table.ts';
import { type AnswerBytes, edited, lengthOf } from '../../json/splice.ts';
import { TextSample } from '../../json/text-sample.ts';
import type { ToldUsage } from '../../json/usage.ts';
import type { VectorEncoder } from '../../json/vectors.ts';
import { answerTooLarge, type Deadline, deadlineFailure } from '../../upstream/failure.ts';
import { type AnswerHead, Stopped } from '../../upstream/upstream.ts';
import { addTime, addWork } from '../request/fair-shares.ts';
import { type RequestMemory, SMALL_BYTES } from '../request/held-memory.ts';
import type { Reply } from '../request/reply.ts';
import { AnswerBody, AnswerEnd, isJson, MAX_FAILURE_BYTES } from './answer-body.ts';
import type { CallMeter } from './call-meter.ts';
import { hasGenerated, Relay } from './relay.ts';

/** The usage of an answer that has none, and ran: it is estimated. */
const UNTOLD: ToldUsage = { prompt: null, completion: null, details: null };
const NOTHING_TOLD: ToldOfCall = { usage: null, tier: undefined };

/** The client's body, made from the upstream's, also as views of it; null when that is not the answer that was asked for. */
export type Rendered = MaybeAsync<AnswerBytes | null>;
type Render = (body: Buffer, scan: AnswerScan) => Rendered;

/** The answer with its edits made; null where it has no result. */
export function renderEdited(body: Buffer, scan: AnswerScan): AnswerBytes | null {
  return scan.hasResult ? edited(body, scan.edits) : null;
}

/**
 * Relays one answer that is not streamed: it is kept whole, metered, rendered and sent at once. If the client
 * leaves, the relay still waits for the answer for a while, because an estimate could only guess what was generated. A
 * call whose answer never comes is booked by its prompt.
 */
export class JsonRelay extends Relay {
  readonly #render: Render;
  readonly #table: MemberTable;
  /** Writes vectors in the encoding asked for as they come; null: the answer is kept as it comes. */
  readonly #encoder: VectorEncoder | null;
  #body!: AnswerBody; // from the head on
  /** The end of an answer that is larger than may be held, as far as it came. */
  #beyond: AnswerEnd | null = null;
  /** What the part of it that was held tells, and the text in it. */
  #told = NOTHING_TOLD;
  #begun: Generated = NOTHING_SEEN;
  #isJson = false;
  #rendered: AnswerBytes | null = null;
  /** The memory of a large answer, and for how many bytes it was taken. */
  #memory: RequestMemory | null = null;
  #kept = 0;
  /** Ends the wait for an answer whose client left. */
  #leaving: NodeJS.Timeout | null = null;

  constructor(
    reply: Reply,
    meter: CallMeter,
    render: Render,
    table = CHAT_ANSWER,
    encoder: VectorEncoder | null = null,
  ) {
    super(reply, meter);
    this.#render = render;
    this.#table = table;
    this.#encoder = encoder;
  }

  override onHead(head: AnswerHead): void {
    super.onHead(head);
    this.#isJson = isJson(head);
    this.#body =
      head.status !== 200
        ? new AnswerBody(MAX_FAILURE_BYTES)
        : new AnswerBody(
            this.meter.maxAnswerBytes,
            this.#encoder === null ? head.contentLength : 0,
          );
    this.meter.toldCost = head.responseCost;
  }

  onData(bytes: Buffer, last: boolean): void {
    this.watch.active = true;
    if (this.#beyond !== null) return this.#readBeyond(this.#beyond, bytes);
    const encoder = this.status === 200 ? this.#encoder : null;
    const before = this.#body.size;
    this.#body.push(encoder === null ? bytes : encoder.push(bytes), last);
    const { overflown, size } = this.#body;
    const held = encoder === null ? size : size + encoder.pending;
    if (overflown || held > this.meter.maxAnswerBytes)
      this.#exceed(encoder === null ? bytes.subarray(size - before) : bytes);
    else if (held > SMALL_BYTES) this.#keep(held, bytes.length);
  }

  /** The answer is larger than may be held: it becomes an error, and is read on for its usage. @param bytes what came beyond what is held */
  #exceed(bytes: Buffer): void {
    if (this.status !== 200 || !this.#isJson) {
      this.call?.abort(this);
      return this.onEnd();
    }
    const most = this.meter.maxAnswerBytes;
    this.meter.upstreamFailed(
      `the answer is larger than MAX_ANSWER_BYTES (${most}); what ran is booked`,
      200,
    );
    const { bytes: held } = this.#body;
    this.#beyond = new AnswerEnd(held);
    const begun = scanBeginning(held, this.#table);
    this.#told = begun;
    this.#begun = new WholeAnswer(held, begun).kept();
    this.#body.release();
    this.#memory?.end();
    this.#readBeyond(this.#beyond, bytes);
  }

  #readBeyond(beyond: AnswerEnd, bytes: Buffer): void {
    addWork(this.meter.load, bytes.length);
    if (beyond.push(bytes)) return;
    this.call?.abort(this);
    this.#bookTooLarge(beyond, false);
  }

  /**
   * Where no usage is told, the text is counted: as much of the rest as of what was held.
   * @param isWhole the answer came to its end: what stands last are members of the answer, and of nothing within it
   */
  #bookTooLarge({ bytes, growth }: AnswerEnd, isWhole: boolean): void {
    this.#settle();
    const end = isWhole ? scanEnd(bytes, this.#table) : NOTHING_TOLD;
    this.meter.toldTier = end.tier ?? this.#told.tier;
    const usage = end.usage ?? this.#told.usage ?? UNTOLD;
    const generated = {
      ...this.#begun,
      generatedBytes: Math.round(this.#begun.generatedBytes * growth),
    };
    this.meter.settle(
      this.clientGone ? 'client_aborted' : 'upstream_failed',
      usage,
      generated,
      this,
    );
  }

  /** Takes the memory of a large answer, and counts its work. It is refused where its company holds too much. */
  #keep(held: number, read: number): void {
    const bytes = Math.max(0, held - this.#kept);
    addWork(this.meter.load, this.#kept === 0 ? Math.max(held, read) : read);
    this.#kept += bytes;
    this.#memory ??= this.meter.newMemory();
    if (this.settled || this.#memory.take(bytes)) return;
    this.call?.abort(this);
    const error = new GatewayError('service_unavailable');
    error.retry = false; // the model ran, and would run again
    this.fail(error);
  }

  onEnd(): void {
    if (this.settled) return;
    this.reply.endedAt = performance.now();
    if (this.#beyond !== null) return this.#bookTooLarge(this.#beyond, true);
    const body = this.#body.bytes;
    if (this.status !== 200) return this.fail(this.statusError(body));
    const { slug, hidden } = this.meter.names;
    const scan = this.#isJson ? scanAnswer(body, slug, this.#table, hidden) : null;
    this.meter.toldTier = scan?.tier;
    const rendered = scan === null || scan.error ? null : this.#renderOrNull(body, scan);
    if (body.length > SMALL_BYTES)
      addTime(this.meter.load, performance.now() - this.reply.endedAt, 0);
    if (!(rendered instanceof Promise)) return this.#finish(body, scan, rendered);
    rendered
      .catch(nullWhereBroken)
      .then((made) => this.settled || this.#finish(body, scan, made))
      .catch((error) => this.onThrown(error));
  }

  #finish(body: Buffer, scan: AnswerScan | null, rendered: AnswerBytes | null): void {
    if (scan === null || rendered === null) {
      const ran = scan !== null && (scan.generatedBytes > 0 || hasGenerated(scan.usage));
      return this.fail(this.toldError(body, ran));
    }
    this.#settle();
    this.#rendered = rendered;
    const outcome = this.clientGone ? 'client_aborted' : 'completed';
    if (!this.clientGone) this.#memory?.hold(lengthOf(rendered)); // in place of the upstream's body
    this.meter.settle(outcome, scan.usage, new WholeAnswer(body, scan), this);
    if (Buffer.isBuffer(rendered)) this.#body.release(); // else its bytes are sent
  }

  /** An endpoint that looks into the answer may find something other than it asked for. */
  #renderOrNull(body: Buffer, scan: AnswerScan): Rendered {
    try {
      return this.#render(body, scan);
    } catch (error) {
      return nullWhereBroken(error);
    }
  }

  /** The record is safe: now the answer may be sent. */
  onBooked(): void {
    if (this.#rendered === null) this.reply.error(answerTooLarge());
    else this.reply.json(this.#rendered, this.meter.cost);
  }

  onError(error: Error): void {
    if (this.settled) return;
    if (this.clientGone && error instanceof Stopped) return this.#leave(); // the upstream did not fail
    if (this.#beyond !== null) return this.#bookTooLarge(this.#beyond, false);
    this.fail(this.connectionError(error));
  }

  onDeadline(deadline: Deadline): void {
    if (deadline !== 'stop') this.meter.upstreamFailed(`too slow: ${deadline}`);
    if (this.clientGone) return this.#leave();
    if (this.#beyond !== null && deadline !== 'stop') {
      this.call?.abort(this);
      return this.#bookTooLarge(this.#beyond, false);
    }
    if (deadline === 'stop') this.giveUp();
    this.fail(deadlineFailure(deadline, this.call !== null));
    this.call?.abort(this);
  }

  /** What the client sees fail costs nothing (spec sections 2.8 and 8, rule 3). */
  protected fail(error: GatewayError): void {
    if (!this.settled) {
      this.#settle();
      this.meter.settle('upstream_failed', null, NOTHING_SEEN, null);
    }
    this.reply.error(error);
  }

  onClientClose(): void {
    this.call?.leave(this);
    const isOut = this.reply.res.writableFinished;
    if (this.settled || isOut) {
      if (isOut && this.#rendered !== null) this.#body.release(); // the system has taken its bytes
      this.#memory?.end();
      return this.watch.close();
    }
    this.clientGone = true;
    if (this.call === null) return this.watch.close(); // onConnected gives up
    const { whole } = this.meter.readOnMs;
    if (whole === 0 || !this.watch.abandon(this.meter.admission.payer.companyId))
      return this.guarded(() => this.#leave());
    this.#leaving = setTimeout(() => this.guarded(() => this.#leave()), whole).unref();
  }

  /** Stops waiting for an answer whose client left. */
  #leave(): void {
    if (this.settled) return;
    if (this.#beyond !== null) this.#bookTooLarge(this.#beyond, false);
    else {
      this.#settle();
      this.meter.settle('client_aborted', null, NOTHING_SEEN, null);
    }
    this.call?.abort(this);
  }

  #settle(): void {
    this.settled = true;
    this.watch.settled();
    if (!this.clientGone) return; // the answer waits for the client
    if (this.#leaving !== null) clearTimeout(this.#leaving);
    this.watch.close();
    this.#memory?.end();
  }
}

function nullWhereBroken(error: unknown): null {
  if (error instanceof SyntaxError || error instanceof TypeError) return null;
  throw error;
}

/** The text of a whole answer. */
export class WholeAnswer implements Generated {
  readonly textEvents = 0;
  readonly #body: Buffer;
  readonly #scan: AnswerText;

  constructor(body: Buffer, scan: AnswerText) {
    this.#body = body;
    this.#scan = scan;
  }

  get generatedBytes(): number {
    return this.#scan.generatedBytes;
  }

  /** Made only when needed, which is rare: most upstreams tell their usage. */
  get sample(): TextSample {
    const { textStart, textEnd } = this.#scan;
    const sample = new TextSample();
    sample.add(this.#body, textStart, textEnd, textEnd - textStart);
    return sample;
  }

  /** What remains of it where the body is freed. */
  kept(): Generated {
    return { textEvents: 0, generatedBytes: this.generatedBytes, sample: this.sample };
  }
}
