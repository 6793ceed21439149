/** An address of a page of this site, with its query; the start page in place of anything else, such as another site. */
export function localAddress(address: string | null | undefined): string {
  return /^\/[\w-][\w/.~%?&=+:,@!*'()-]{0,2000}$/.test(address ?? '') ? (address as string) : '/';
}
