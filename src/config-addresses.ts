/** Addresses of HTTP in variables of the environment. */

/** @throws Error "must be …" with the rule, unless it holds */
export function must(holds: boolean, rule: string): void {
  if (!holds) throw new Error(`must be ${rule}`);
}

/** @throws Error with what the text must be: "must be …"; so do the others of this page */
export function address(text: string): URL {
  return httpAddress(text, /[?#]/, 'user, password, query and fragment');
}

function httpAddress(text: string, forbidden: RegExp, parts: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isHttp = url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  must(isHttp && !forbidden.test(text), `an http:// or https:// address without ${parts}`);
  return url as URL;
}

/** The replicas of one router: a list with another scheme would send the key unencrypted now and then. */
export function routerAddresses(text: string): readonly [URL, ...URL[]] {
  const texts = text.split(',').map((each) => each.trim());
  must(
    !texts.includes(''),
    'one address, or several with a comma between two of them; one is empty',
  );
  must(
    !texts.some((each) => /[\s;]/.test(each)),
    'addresses with commas between them, without spaces and semicolons',
  );
  must(
    !texts.some((each) => each.indexOf('://') !== each.lastIndexOf('://')),
    'addresses with one scheme each',
  );
  const urls = texts.map(address) as [URL, ...URL[]];
  const isSame = (part: (url: URL) => string): boolean => new Set(urls.map(part)).size === 1;
  must(
    isSame(({ protocol }) => protocol),
    'addresses that all begin with http:// or all with https://',
  );
  must(
    isSame(({ pathname }) => pathname.replace(/\/+$/, '')),
    'addresses of one router, all with the same path',
  );
  must(
    new Set(urls.map(({ host }) => host)).size === urls.length,
    'addresses that are all different',
  );
  return urls;
}

export function addressWithoutPath(text: string): URL {
  const url = address(text);
  must(url.pathname === '/', 'an address without a path');
  return url;
}

/** An https:// address; http:// only within this machine. */
export function encryptedAddress(text: string): URL {
  const url = address(text);
  must(url.protocol === 'https:' || isLoopback(url.hostname), 'an https:// address');
  return url;
}

/** @param hostname of a URL */
export function isLoopback(hostname: string): boolean {
  return /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
}

/** Path and query may hold a token of the receiver's. */
export function webhookAddress(text: string): URL {
  return httpAddress(text, /#/, 'user, password and fragment');
}
