/** Words of the start of a gateway, which loads none of the texts for pages. */

const DECADE_SECONDS = 315_360_000;

/** Nothing is wrong where programs alone administer; but nobody would look for the command. */
export const NO_OPERATOR = {
  text: 'There is no operator: nobody can sign in to see all companies.',
  command: 'tollgate user create --role operator --email YOU@EXAMPLE.COM',
};

export const NO_TENANT_ROLE = {
  text: 'Row-level security between companies is off: the database user may not take the role tollgate_tenant.',
  remedy: (advice: string) =>
    `Let an administrator of the server run "${advice}", then restart a gateway.`,
};

/** "90 seconds", "12 minutes", "5 hours". Records in a file that cannot be read have waited since the epoch. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} seconds`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} minutes`;
  return seconds < DECADE_SECONDS ? `${Math.round(seconds / 3600)} hours` : 'an unknown time';
}
