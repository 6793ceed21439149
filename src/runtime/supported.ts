/**
 * The oldest Node with all that the program uses; undici needs the minor version. This file and
 * main.ts import nothing and use no syntax after ES2020, so that an old Node can read them.
 */
const OLDEST_MAJOR = 22;
const OLDEST_MINOR = 19;

/**
 * Says why this runtime cannot run the program.
 * @param versions `process.versions`
 * @returns one line that also says what to do, or null when the runtime is supported
 */
export function unsupportedRuntime(
  versions: Readonly<Record<string, string | undefined>>,
): string | null {
  const other = versions.bun ? 'Bun' : versions.deno ? 'Deno' : null;
  if (other !== null) {
    return `needs Node, this is ${other}: the program relies on Node's own HTTP server; run it with Node from nodejs.org`;
  }
  const { node = 'unknown' } = versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  if (major > OLDEST_MAJOR || (major === OLDEST_MAJOR && minor >= OLDEST_MINOR)) return null;
  return `needs Node ${OLDEST_MAJOR}.${OLDEST_MINOR} or newer, this is ${node}; install Node from nodejs.org, or run "make run" in a checkout`;
}
