/** Files that a gateway has open beside its calls: 31 at rest, those of scrapes and health checks, and some to spare. */
const OWN_FILES = 64;
/** Where files are short, this part is for calls that are awaited though their clients left. */
const ABANDONED = 1 / 8;
/** The part that connections and calls may take before they are made fewer. */
const TAKEN = 15 / 16;

/** The users of open files. A client's connection takes one, and a call takes one to the upstream. */
interface OpenFiles {
  /** Connections of clients. */
  readonly maxConnections: number;
  readonly maxRequests: number;
  /** Calls awaited though their clients left. */
  readonly maxAbandoned: number;
}

/**
 * Makes these fewer where a process may not open as many files, so that each call that is taken finds a descriptor for
 * the upstream. Otherwise connections of clients would take all of them, and no call could be sent.
 * @param limit files that a process may have open; undefined where the system does not tell
 * @returns what changes; empty where there are enough
 */
export function fitOpenFiles(
  { maxConnections, maxRequests, maxAbandoned }: OpenFiles,
  limit = Number.POSITIVE_INFINITY,
): Partial<OpenFiles> {
  const free = Math.max(4, limit - OWN_FILES);
  const calls = Math.min(maxRequests, maxConnections);
  const left = free - maxConnections - calls;
  if (left >= maxAbandoned) return {};
  if (left >= (1 - TAKEN) * free) return { maxAbandoned: left };
  const abandoned = Math.min(maxAbandoned, Math.floor(ABANDONED * free));
  const requests = Math.min(calls, Math.floor((free - abandoned) / 2));
  const connections = Math.min(maxConnections, free - abandoned - requests);
  return { maxConnections: connections, maxRequests: requests, maxAbandoned: abandoned };
}
