/**
 * The oldest Node with all that the program uses. This file and main.ts import nothing and use
 * no syntax after ES2020, so that an old Node can read them and print the message.
 */
const OLDEST_NODE = 22;

/**
 * Says why this runtime cannot run the program.
 * @param versions `process.versions`
 * @returns one line that also says what to do, or null when the runtime is supported
 */
export function unsupportedRuntime(versions: Readonly<Record<string, string | undefined>>): string | null {
  const why = "the program relies on Node's own HTTP server";
  if (versions.bun) return `needs Node, this is Bun: ${why}, and on Bun the first request ends the process`;
  if (versions.deno) return `needs Node, this is Deno: ${why}`;
  const { node = 'unknown' } = versions;
  if (parseInt(node, 10) >= OLDEST_NODE) return null;
  return `needs Node ${OLDEST_NODE} or newer, this is ${node}; run "npx tollgate" or "make run", or install Node from nodejs.org`;
}
