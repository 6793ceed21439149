import type { GatewayError } from '../../domain/errors.ts';
import type { BookingListener } from '../../domain/ports.ts';
import { FREE_ENDPOINT } from '../../domain/usage.ts';
import type { ToldUsage } from '../../json/usage.ts';
import { reasonOf } from '../../log.ts';
import {
  connectionFailure,
  type Deadline,
  type FailedCall,
  ownFault,
  ownShortage,
  statusFailure,
  toldFailure,
} from '../../upstream/failure.ts';
import type { AnswerHead, UpstreamCall, UpstreamHandler } from '../../upstream/upstream.ts';
import type { Watch } from '../request/deadlines.ts';
import type { Reply } from '../request/reply.ts';
import type { CallMeter } from './call-meter.ts';

/** The most of an upstream's error that is logged, in bytes. */
const MAX_REASON_BYTES = 2000;

/** Whether a usage tells that the model generated something. */
export function hasGenerated(usage: ToldUsage | null): boolean {
  return usage !== null && (usage.completion ?? 0) > 0;
}

/** What the relays of whole and of streamed answers share: the state of one call. */
export abstract class Relay implements UpstreamHandler, BookingListener {
  protected readonly reply: Reply;
  protected readonly meter: CallMeter;
  protected readonly watch: Watch;
  /** null until the request is sent: until then nothing runs upstream. */
  protected call: UpstreamCall | null = null;
  protected status = 0;
  #retryAfter: string | undefined;
  protected clientGone = false;
  /** The call is booked or given up: the rest of the answer no longer matters. */
  protected settled = false;
  /** What the upstream said of a failure inside a 200; empty: nothing. */
  protected said = '';

  constructor(reply: Reply, meter: CallMeter) {
    this.reply = reply;
    this.meter = meter;
    reply.relay = this;
    this.watch = meter.watch(reply.res, this);
  }

  get isOptional(): boolean {
    return this.meter.admission.endpoint === FREE_ENDPOINT;
  }

  onConnected(call: UpstreamCall): boolean {
    this.watch.sent();
    if (this.settled) return false; // connecting took too long
    if (this.clientGone) {
      this.giveUp(); // nothing was sent, nothing ran
      return false;
    }
    this.call = call;
    return true;
  }

  onStale(): boolean {
    this.call = null;
    if (this.settled) return false;
    if (!this.clientGone) return true;
    this.giveUp(); // nothing ran
    this.watch.close();
    return false;
  }

  onHead(head: AnswerHead): void {
    this.status = head.status;
    this.#retryAfter = head.retryAfter;
    this.watch.answered();
  }

  abstract onData(bytes: Buffer, last: boolean): void;
  abstract onEnd(): void;
  abstract onError(error: Error): void;

  /** Ends the call as a broken answer does, by our own fault; where even that throws, without a record. */
  onThrown(error: unknown): void {
    const { meter, reply } = this;
    const failure = ownFault(this.call !== null);
    meter.threw(error);
    try {
      if (!this.settled) {
        this.fail(failure);
        return this.call?.abort(this);
      }
    } catch {} // for the same reason as before
    this.settled = true;
    meter.drop();
    this.call?.abort(this);
    if (reply.res.headersSent) reply.res.destroy();
    else reply.error(failure);
  }

  /** Notes why no answer comes. @returns the client's error */
  protected connectionError(error: Error): GatewayError {
    const shortage = this.call === null ? ownShortage(error) : null;
    if (shortage === null) this.meter.upstreamFailed(reasonOf(error));
    else {
      this.meter.ranShort(shortage);
      this.giveUp();
    }
    return connectionFailure(this.call !== null);
  }

  /** Ends a call that fails at the gateway itself: the client sees it fail, so it is free. */
  protected giveUp(): void {
    this.settled = true;
    this.watch.settled();
    this.meter.drop();
  }

  /** Does a part of the call that a timer begins. */
  guarded(part: () => void): void {
    try {
      part();
    } catch (error) {
      this.onThrown(error);
    }
  }

  abstract onBooked(): void;
  /** The client's side is over. */
  abstract onClientClose(): void;
  abstract onDeadline(deadline: Deadline): void;
  /** Ends the call with an error. */
  protected abstract fail(error: GatewayError): void;

  /** The client's error for an answer that is none by its status or its kind. The upstream's words go to the operator's log alone. */
  protected statusError(body: Buffer): GatewayError {
    const { status, meter } = this;
    const reason = `status ${status}: ${body.toString('utf8', 0, MAX_REASON_BYTES)}`;
    if (status === 200) return this.toldError(body, false, reason);
    const error = statusFailure(status, body, this.#failedCall);
    meter.upstreamFailed(reason, status, error.status);
    return error;
  }

  /**
   * The client's error for one that the upstream tells inside a 200.
   * @param told the answer, or the data of the event
   * @param ran whether the model generated something
   * @param reason for the log; without it, what the upstream says
   */
  protected toldError(told: Buffer, ran: boolean, reason?: string): GatewayError {
    const { error, status, words } = toldFailure(told, this.#failedCall, ran);
    this.said = words;
    const said =
      words === ''
        ? 'an answer of 200 that is not what was asked for'
        : `an error in a 200: ${words}`;
    this.meter.upstreamFailed(reason ?? said, status || 200, error.status);
    return error;
  }

  get #failedCall(): FailedCall {
    const { admission, secrets, ownBody } = this.meter;
    const { isOptional } = this;
    return { model: admission.model, secrets, ownBody, retryAfter: this.#retryAfter, isOptional };
  }
}
