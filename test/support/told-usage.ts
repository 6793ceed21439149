import {
  readUsageMembers,
  type ToldUsage,
  type UsageReader,
  usageMembers,
} from '../../src/json/usage.ts';

/** Reads a usage from its text. @returns null when no count is told, or it is not JSON */
export function readUsage(json: string, reader: UsageReader): ToldUsage | null {
  const members = usageMembers(json);
  return members === null ? null : readUsageMembers(members, reader);
}
