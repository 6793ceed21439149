// autocannon ships no types; this is the part the benchmark uses.
declare module 'autocannon' {
  interface Options {
    url: string;
    method: string;
    headers: Record<string, string>;
    body: Buffer;
    connections: number;
    /** Seconds. */
    duration: number;
  }
  interface Result {
    '2xx': number;
    non2xx: number;
    errors: number;
    /** Milliseconds. */
    latency: { p50: number; p99: number };
  }
  export default function autocannon(options: Options): Promise<Result>;
}
