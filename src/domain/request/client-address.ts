/** With the port that some proxies add: "10.0.0.1:5000", "[2001:db8::1]:5000", "[2001:db8::1]". */
const WITH_PORT = /^(?:(\d+(?:\.\d+){3}):\d+|\[([^\]]*)\](?::\d+)?)$/;

/**
 * The address of a client: its connection's, or behind reverse proxies the one that the outermost of them saw. Each
 * proxy appends the address it saw to X-Forwarded-For, so with n of them the n-th from the right is believed; what
 * stands before it was written by the client.
 * @param proxies how many proxies stand in front and set X-Forwarded-For
 * @param peer address of the connection; undefined on a Unix socket
 * @param rawHeaders names and values in turn; several X-Forwarded-For count as one, in their order
 * @returns perhaps no valid address, as a proxy wrote it; null when fewer proxies wrote one, or there is none
 */
export function clientAddress(
  proxies: number,
  peer: string | undefined,
  rawHeaders: readonly string[],
): string | null {
  if (proxies === 0) return peer ?? null;
  const chain: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() === 'x-forwarded-for')
      chain.push(...(rawHeaders[i + 1] as string).split(','));
  }
  const address = chain.at(-proxies)?.trim() || null;
  const [, ipv4, ipv6] = WITH_PORT.exec(address ?? '') ?? [];
  return ipv4 ?? ipv6 ?? address;
}
