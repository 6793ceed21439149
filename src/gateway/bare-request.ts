import { IncomingMessage } from '../http.ts';

/**
 * A request whose `headers` are `expect` alone; all of them are in `rawHeaders`. Node looks for
 * `expect` with every request, and makes an object of all headers for it: of the twenty that
 * official SDKs send, 1.6 µs for nobody else.
 */
export class BareRequest extends IncomingMessage {}

Object.defineProperty(BareRequest.prototype, 'headers', {
  get(this: BareRequest): { expect?: string } {
    const raw = this.rawHeaders;
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i] as string;
      if (name.length === 6 && name.toLowerCase() === 'expect') return { expect: raw[i + 1] as string };
    }
    return NONE;
  },
});

const NONE = Object.freeze({});
