import type { IncomingHttpHeaders } from 'node:http';

/** Reading the upstream's answer head and keeping what is not a stream. */

export type ResponseHeaders = IncomingHttpHeaders;

export function isEventStream(headers: ResponseHeaders): boolean {
  return /^text\/event-stream\b/i.test(headers['content-type'] ?? '') && isIdentity(headers);
}

export function isJson(headers: ResponseHeaders): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(headers['content-type'] ?? '') && isIdentity(headers);
}

/** We ask for identity; an edge that compresses all the same sends what we cannot patch. */
function isIdentity(headers: ResponseHeaders): boolean {
  const encoding = headers['content-encoding'];
  return encoding === undefined || encoding.toLowerCase() === 'identity';
}

export function retryAfterOf(headers: ResponseHeaders): string | undefined {
  const value: string | string[] | undefined = headers['retry-after'];
  return Array.isArray(value) ? value[0] : value;
}

/** A body kept whole, up to a limit. */
export class KeptBody {
  readonly #limit: number;
  #first: Buffer | null = null; // nearly every body is one chunk
  #rest: Buffer[] | null = null;
  #size = 0;
  /** More arrived than is kept. */
  overflown = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    if (this.overflown) return;
    this.#size += chunk.length;
    if (this.#size > this.#limit) this.overflown = true;
    else if (this.#first === null) this.#first = chunk;
    else {
      this.#rest ??= [this.#first];
      this.#rest.push(chunk);
    }
  }

  get bytes(): Buffer {
    if (this.#rest !== null) return Buffer.concat(this.#rest);
    return this.#first ?? Buffer.alloc(0);
  }
}
