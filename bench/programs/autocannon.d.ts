// autocannon ships no types; this is the part the benchmark uses.
declare module 'autocannon' {
  /** Duration in seconds, latency in milliseconds. */
  type Result = Record<'2xx' | 'non2xx' | 'errors' | 'duration', number> & {
    latency: { p50: number; p99: number };
  };
  /** @param options as its README has them: url, method, headers, body, connections, duration in seconds */
  export default function autocannon(options: Readonly<Record<string, unknown>>): Promise<Result>;
}
