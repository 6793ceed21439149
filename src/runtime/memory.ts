import { getHeapStatistics } from 'node:v8';

/** Resident memory of the process. 0 where it cannot be read: without /proc, or without a free file descriptor. */
export function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return 0;
  }
}

/** The share of V8's own limit that its heap takes: at 1 the process dies. */
export function heapShare(): number {
  const { used_heap_size, heap_size_limit } = getHeapStatistics();
  return used_heap_size / heap_size_limit;
}
