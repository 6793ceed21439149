import type { ResponseStream } from '../../http/exchange.ts';
import type { ActiveSet } from '../../runtime/active-set.ts';
import { TimerWheel, type WheelMember } from '../../runtime/timer-wheel.ts';
import type { Reply } from './reply.ts';

/** Whatever knows the events of a stream that is kept alive. */
export interface KeepaliveSource {
  /** What a client may be sent between two events; null once the stream is over. */
  keepalive(): Buffer | null;
  /** Does a part of the call that a timer begins; a failure ends the call alone. */
  guarded(part: () => void): void;
}

/**
 * Sends something on streams whose client was sent nothing for a while (STREAM_KEEPALIVE_SECONDS), for balancers that
 * close silent connections. Where it is off there is no object of this class.
 */
export class Keepalive {
  readonly #wheel: TimerWheel;

  constructor(silentMs: number) {
    this.#wheel = new TimerWheel(silentMs);
  }

  /** Keeps a stream alive from now on, until it leaves. */
  keep(out: ResponseStream, reply: Reply, source: KeepaliveSource): KeptStream {
    return new KeptStream(this.#wheel, out, reply, source);
  }

  close(): void {
    this.#wheel.close();
  }
}

/** A stream that remembers when its client was last sent something. To be written to in place of the stream below. */
export class KeptStream implements ResponseStream, WheelMember {
  index = -1;
  slot: ActiveSet<WheelMember> | null = null;
  activeAt = 0;
  readonly #wheel: TimerWheel;
  readonly #out: ResponseStream;
  readonly #reply: Reply;
  readonly #source: KeepaliveSource;
  /** The head has left, and no event yet. */
  #isUnbegun = false;

  constructor(wheel: TimerWheel, out: ResponseStream, reply: Reply, source: KeepaliveSource) {
    this.#wheel = wheel;
    this.#out = out;
    this.#reply = reply;
    this.#source = source;
    wheel.join(this);
  }

  get isEmpty(): boolean {
    return this.#out.isEmpty;
  }

  add(buffer: Buffer, start: number, end: number): boolean {
    this.touch();
    if (this.#isUnbegun) {
      this.#isUnbegun = false;
      this.#reply.onStream();
    }
    return this.#out.add(buffer, start, end);
  }

  flush(): boolean {
    return this.#out.flush();
  }

  end(): void {
    this.leave();
    this.#out.end();
  }

  drop(): void {
    this.#out.drop();
  }

  /** Bytes leave now: those that are added, or the last that waited for the client. */
  touch(): void {
    this.activeAt = this.#wheel.now;
  }

  /** The stream ends, or its client's side is over. */
  leave(): void {
    this.#wheel.leave(this);
  }

  onInactive(): void {
    this.#source.guarded(() => this.#keepAlive());
  }

  #keepAlive(): void {
    const { res, streamedAt } = this.#reply;
    // the client has bytes to read, or will have: they wait for it, for the record, or for the answer before this one
    if (!this.#out.isEmpty || res.writableLength > 0 || res.socket === null) return;
    const bytes = this.#source.keepalive();
    if (bytes === null) return;
    this.#out.add(bytes, 0, bytes.length);
    this.#out.flush();
    if (streamedAt > 0) return;
    this.#isUnbegun = true;
    this.#reply.streamedAt = Number.NaN; // the time to the first event is that of the model
  }
}
