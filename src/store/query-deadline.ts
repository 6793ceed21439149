import { DatabaseUnavailable, stopping } from './database-error.ts';

/** Bounds the time of some work with the database. */
export interface QueryDeadline {
  readonly passed: boolean;
  /** Settles as the promise does, or rejects when the deadline passes first. */
  race<T>(promise: PromiseLike<T>): Promise<T>;
  /** Passes at once. */
  pass(reason: Error): void;
  clear(): void;
}

/** @param ms milliseconds; Infinity never passes by itself */
export function startDeadline(ms: number): QueryDeadline {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  let passed = false;
  const pass = (reason: Error): void => {
    passed = true;
    reject(reason);
  };
  const late = () => pass(new DatabaseUnavailable('DEADLINE', `no answer within ${ms} ms`));
  const timer = Number.isFinite(ms) ? setTimeout(late, ms) : undefined;
  return {
    get passed() {
      return passed;
    },
    race: (other) => Promise.race([other, promise]),
    pass,
    clear: () => clearTimeout(timer),
  };
}

/** Runs work with a deadline that also passes when `stop` aborts. */
export async function withDeadline<T>(
  ms: number,
  stop: AbortSignal,
  work: (deadline: QueryDeadline) => Promise<T>,
): Promise<T> {
  const deadline = startDeadline(ms);
  const pass = () => deadline.pass(stopping());
  stop.addEventListener('abort', pass);
  try {
    return await work(deadline);
  } finally {
    stop.removeEventListener('abort', pass);
    deadline.clear();
  }
}
