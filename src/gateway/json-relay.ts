import { performance } from 'node:perf_hooks';
import { CHAT_ANSWER } from '../domain/answer-members.ts';
import { GatewayError } from '../domain/errors.ts';
import { type Generated, NOTHING_SEEN } from '../domain/estimate.ts';
import type { MaybeAsync } from '../domain/ports.ts';
import { type AnswerScan, scanAnswer } from '../json/answer.ts';
import type { MemberTable } from '../json/member-table.ts';
import { splice } from '../json/splice.ts';
import { TextSample } from '../json/text-sample.ts';
import { brokenAnswer, type Deadline, deadlineFailure } from '../upstream/failure.ts';
import { type AnswerHead, Stopped } from '../upstream/upstream.ts';
import { AnswerBody, isJson, MAX_FAILURE_BYTES } from './answer-body.ts';
import type { CallMeter } from './call-meter.ts';
import { addWork } from './fair-shares.ts';
import { type RequestMemory, SMALL_BYTES } from './held-memory.ts';
import { Relay } from './relay.ts';
import type { Reply } from './reply.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** The client's body, made from the upstream's; null when that is not the answer that was asked for. */
export type Rendered = MaybeAsync<Buffer | null>;
type Render = (body: Buffer, scan: AnswerScan) => Rendered;

/** The answer with its edits made; null where it has no result. */
export function renderEdited(body: Buffer, scan: AnswerScan): Buffer | null {
  return scan.hasResult ? splice(body, scan.edits) : null;
}

/**
 * Relays one answer that is not streamed: it is kept whole, metered, rendered and sent in one write. If the client
 * leaves, the relay still waits for the answer for a while, because an estimate could only guess what was generated. A
 * call whose answer never comes is booked by its prompt.
 */
export class JsonRelay extends Relay {
  readonly #render: Render;
  readonly #table: MemberTable;
  #body = new AnswerBody(MAX_ANSWER_BYTES);
  #isJson = false;
  #rendered: Buffer | null = null;
  /** The memory of a large answer, and for how many bytes it was taken. */
  #memory: RequestMemory | null = null;
  #kept = 0;
  /** Ends the wait for an answer whose client left. */
  #leaving: NodeJS.Timeout | null = null;

  constructor(reply: Reply, meter: CallMeter, render: Render, table = CHAT_ANSWER) {
    super(reply, meter);
    this.#render = render;
    this.#table = table;
  }

  override onHead(head: AnswerHead): void {
    super.onHead(head);
    this.#isJson = isJson(head);
    if (head.status !== 200) this.#body = new AnswerBody(MAX_FAILURE_BYTES);
    this.meter.toldCost = head.responseCost;
  }

  onData(bytes: Buffer, last: boolean): void {
    this.watch.active = true;
    this.#body.push(bytes, last);
    if (this.#body.overflown) {
      this.call?.abort(this);
      if (this.status !== 200) this.onEnd();
      else this.onError(new Error('the answer is larger than the gateway keeps'));
    } else if (this.#body.size > SMALL_BYTES) this.#keep();
  }

  /** Takes the memory of a large answer, and counts its work. It is refused where its company holds too much. */
  #keep(): void {
    const bytes = this.#body.size - this.#kept;
    this.#kept = this.#body.size;
    addWork(this.meter.load, bytes);
    this.#memory ??= this.meter.newMemory();
    if (this.settled || this.#memory.take(bytes)) return;
    this.call?.abort(this);
    this.#fail(new GatewayError('service_unavailable'));
  }

  onEnd(): void {
    if (this.settled) return;
    this.reply.endedAt = performance.now();
    const body = this.#body.bytes;
    if (this.status !== 200) return this.#fail(this.statusError(body));
    const { slug, hidden } = this.meter.names;
    const scan = this.#isJson ? scanAnswer(body, slug, this.#table, hidden) : null;
    const rendered = scan === null || scan.error ? null : this.#renderOrNull(body, scan);
    if (!(rendered instanceof Promise)) return this.#finish(body, scan, rendered);
    rendered
      .catch(nullWhereBroken)
      .then((made) => this.settled || this.#finish(body, scan, made))
      .catch((error) => this.onThrown(error));
  }

  #finish(body: Buffer, scan: AnswerScan | null, rendered: Buffer | null): void {
    if (scan === null || rendered === null) {
      this.meter.upstreamFailed('an answer of 200 that is not what was asked for', 200);
      return this.#fail(brokenAnswer());
    }
    this.#settle();
    this.#rendered = rendered;
    const outcome = this.clientGone ? 'client_aborted' : 'completed';
    this.meter.settle(outcome, scan.usage, new WholeAnswer(body, scan), this);
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
    this.reply.json(this.#rendered as Buffer, this.meter.cost);
  }

  onError(error: Error): void {
    if (this.settled) return;
    if (this.clientGone && error instanceof Stopped) return this.#leave(); // the upstream did not fail
    this.#fail(this.connectionError(error));
  }

  protected onDeadline(deadline: Deadline): void {
    if (deadline !== 'stop') this.meter.upstreamFailed(`too slow: ${deadline}`);
    if (this.clientGone) return this.#leave();
    if (deadline === 'stop') this.giveUp();
    this.#fail(deadlineFailure(deadline, this.call !== null));
    this.call?.abort(this);
  }

  /** What the client sees fail costs nothing (spec sections 2.8 and 8, rule 3). */
  #fail(error: GatewayError): void {
    if (!this.settled) {
      this.#settle();
      this.meter.settle('upstream_failed', null, NOTHING_SEEN, null);
    }
    this.reply.error(error);
  }

  onClientClose(): void {
    if (this.settled || this.reply.res.writableFinished) {
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
    this.#settle();
    this.meter.settle('client_aborted', null, NOTHING_SEEN, null);
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
  readonly #scan: AnswerScan;

  constructor(body: Buffer, scan: AnswerScan) {
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
}
