import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { CookieOptions } from 'hono/utils/cookie';
import * as client from 'openid-client';
import { emailSpelling } from '../../domain/visible-text.ts';
import { reasonOf } from '../../log.ts';
import type { ToldGroups } from '../../operations/group.ts';
import { cookieOptions } from '../page/session.ts';
import type { OidcSettings } from '../process/settings.ts';
import { readGroups, tellsGroups } from './group-claim.ts';

const CALLBACK = '/sign-in/oidc/callback';
/** Of a cookie for each attempt: another tab may have begun one, too. The attempt's state follows. */
const COOKIE = 'tollgate-oidc-';
const ATTEMPT_SECONDS = 600;
const MOST_ATTEMPTS = 4096; // bytes of their cookies, which a browser sends with each request
const PROVIDER_SECONDS = 10;
const MOST_WORDS = 500; // characters of the provider's that are logged
const MOST_BODY = 65_536;

/** The provider's claims about an address, all from the identity token or all from its userinfo endpoint. */
interface AddressClaims {
  readonly email?: unknown;
  readonly email_verified?: unknown;
  /** Entra's own, in place of email_verified, which it never tells: the owner of the address's domain is verified. */
  readonly xms_edov?: unknown;
}

interface FinishedAttempt {
  /** The verified address in lower case; null when the provider confirms none. */
  readonly email: string | null;
  /** Why there is no address; empty where there is one. */
  readonly lack: string;
  /** null: they are not read. */
  readonly groups: ToldGroups | null;
  readonly next: string;
  readonly invitation: string;
}

/** A callback of no attempt that is under way: none of this browser, or one that it has ended, by Reload or Back. */
export class NoAttempt extends Error {
  override readonly name = 'NoAttempt';
  /** Where the attempt led; '': not known. */
  readonly next: string;

  constructor(next: string) {
    super('this browser has no such attempt under way');
    this.next = next;
  }
}

/**
 * Sign-in with OpenID Connect: authorization code flow with PKCE, state and nonce, which a cookie
 * keeps until the browser comes back. Users are found by their verified e-mail address.
 */
export class Oidc {
  readonly #settings: OidcSettings;
  readonly #origin: URL;
  readonly #options: CookieOptions;
  #provider: client.Configuration | null = null;

  /** @param origin where people reach the pages */
  constructor(settings: OidcSettings, origin: URL) {
    this.#settings = settings;
    this.#origin = origin;
    this.#options = cookieOptions(origin.protocol === 'https:');
  }

  /**
   * Begins an attempt and sets its cookie.
   * @param next the address of this site that the attempt leads to
   * @param invitation token of the invitation that is to be accepted; empty: none
   * @param asksAccount the person chooses an account at the provider, though one is signed in there
   * @returns the provider's address to redirect to
   */
  async begin(c: Context, next: string, invitation: string, asksAccount: boolean): Promise<string> {
    const provider = await this.#lookUp();
    const verifier = client.randomPKCECodeVerifier();
    const state = client.randomState();
    const nonce = client.randomNonce();
    const to = client.buildAuthorizationUrl(provider, {
      redirect_uri: new URL(CALLBACK, this.#origin).href,
      scope: this.#settings.scope,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
      ...(asksAccount && { prompt: 'select_account' }),
    });
    this.#forgetOldest(c);
    const attempt = [nonce, verifier, Buffer.from(next).toString('base64url'), invitation].join(
      '.',
    );
    setCookie(c, COOKIE + state, attempt, { ...this.#options, maxAge: ATTEMPT_SECONDS });
    return to.href;
  }

  /**
   * Ends an attempt: its cookie keeps only where it leads.
   * @returns the address that the provider confirms, the groups, and the values given to `begin`
   * @throws NoAttempt
   * @throws Error when the provider refuses
   */
  async finish(c: Context): Promise<FinishedAttempt> {
    const state = c.req.query('state') ?? '';
    const name = /^[\w-]{43}$/.test(state) ? COOKIE + state : COOKIE;
    const attempt = getCookie(c, name, this.#options.prefix) ?? '';
    const [nonce, verifier, encoded = '', invitation = ''] = attempt.split('.');
    const next = Buffer.from(encoded, 'base64url').toString();
    if (!nonce || !verifier) throw new NoAttempt(next);
    setCookie(c, name, `..${encoded}.`, { ...this.#options, maxAge: ATTEMPT_SECONDS });
    const callback = new URL(CALLBACK + new URL(c.req.url).search, this.#origin);
    const provider = this.#provider ?? (await this.#lookUp());
    const tokens = await client.authorizationCodeGrant(provider, callback, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    const token: AddressClaims & object = { ...(claims as object) };
    const { groupsClaim } = this.#settings;
    const isWhole =
      token.email !== undefined && (token.email_verified ?? token.xms_edov) !== undefined;
    const hasGroups = groupsClaim === null || tellsGroups(token, groupsClaim);
    const isThere =
      claims !== undefined && provider.serverMetadata().userinfo_endpoint !== undefined;
    const userinfo: AddressClaims | null =
      isThere && !(isWhole && hasGroups)
        ? await client.fetchUserInfo(provider, tokens.access_token, claims.sub)
        : null;
    // of one source: an address of the one is not confirmed by the other
    const address = isWhole ? token : (userinfo ?? token);
    const lack = lackOf(address, address === token ? 'the identity token' : 'userinfo');
    // the sign of kelvin becomes a k, which would be somebody else's address
    const email =
      lack === '' ? emailSpelling((address.email as string).replaceAll('\u212a', '\ufffd')) : null;
    const groups =
      groupsClaim === null
        ? null
        : readGroups(hasGroups ? token : (userinfo ?? token), groupsClaim);
    return { email, lack, groups, next, invitation };
  }

  /** Removes the oldest attempts; browsers send the oldest cookie first. */
  #forgetOldest(c: Context): void {
    let bytes = 0;
    for (const [sent, value] of Object.entries(getCookie(c)).reverse()) {
      const at = sent.indexOf(COOKIE);
      if (at !== -1) bytes += sent.length + value.length;
      if (at !== -1 && bytes > MOST_ATTEMPTS) deleteCookie(c, sent.slice(at), this.#options);
    }
  }

  /** The provider's configuration, fetched for each attempt that begins, because its endpoints may move. */
  async #lookUp(): Promise<client.Configuration> {
    const { clientId, clientSecret } = this.#settings;
    const issuer = new URL(this.#settings.issuer);
    const authentication = clientSecret === null ? client.None() : authenticationBy(clientSecret);
    // OpenID Connect lets TLS stand for the token's signature; what ends TLS before the provider could change claims
    const execute = [client.enableNonRepudiationChecks];
    if (issuer.protocol === 'http:') execute.push(client.allowInsecureRequests); // config.ts accepts it for this machine only
    const options = { execute, timeout: PROVIDER_SECONDS };
    this.#provider = await client.discovery(issuer, clientId, undefined, authentication, options);
    return this.#provider;
  }
}

/** How a secret is given, in the order in which we choose among what the provider names. */
const METHODS = [
  ['client_secret_post', client.ClientSecretPost],
  ['client_secret_basic', client.ClientSecretBasic],
  ['client_secret_jwt', client.ClientSecretJwt],
] as const;

/** Gives the secret as the provider wants it: OpenID Connect Core 9, where one that names no method wants "basic". */
function authenticationBy(secret: string): client.ClientAuth {
  return (server, ...request) => {
    const named = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    const [, method] = METHODS.find(([name]) => named.includes(name)) ?? METHODS[0];
    return method(secret)(server, ...request);
  };
}

/** A boolean by its description; tokens have it in these forms too. */
const ENTRAS_YES: readonly unknown[] = [true, 1, '1', 'true'];

/** Why an address does not count; empty where it does. */
function lackOf({ email, email_verified, xms_edov }: AddressClaims, source: string): string {
  if (typeof email !== 'string') return `the provider tells no e-mail address in ${source}`;
  const isVerified =
    email_verified === undefined ? ENTRAS_YES.includes(xms_edov) : email_verified === true;
  return isVerified ? '' : `the provider does not say email_verified: true in ${source}`;
}

/**
 * The log line of a failed attempt: our words, and then the provider's own, such as `invalid_client` with its
 * description. It has no tokens and codes.
 */
export async function failureOf(error: unknown): Promise<string> {
  const words = [reasonOf(error), ...(await providersWords(error))];
  const { cause } = error as { cause?: unknown };
  if (cause instanceof Error) words.push(reasonOf(cause), ...(await providersWords(cause)));
  return [...new Set(words)].join(': ').slice(0, MOST_WORDS);
}

async function providersWords(error: unknown): Promise<string[]> {
  const {
    error: code,
    error_description,
    cause,
    response = cause,
  } = error as Partial<client.ResponseBodyError>;
  if (code !== undefined) return texts(code, error_description);
  const challenges = error instanceof client.WWWAuthenticateChallengeError ? error.cause : [];
  const challenged = challenges.flatMap(({ parameters }) =>
    texts(parameters.error, parameters.error_description),
  );
  if (!(response instanceof Response)) return challenged;
  return [`HTTP ${response.status}`, ...challenged, ...(await wordsOfBody(response))];
}

/** The error that an answer tells whose body nobody has read. */
async function wordsOfBody(response: Response): Promise<string[]> {
  if (response.bodyUsed || !(Number(response.headers.get('content-length') ?? 0) <= MOST_BODY))
    return [];
  try {
    const body = (await response.json()) as { error?: unknown; error_description?: unknown };
    return texts(body.error, body.error_description);
  } catch {
    return []; // no JSON: a page of a proxy
  }
}

function texts(...values: readonly unknown[]): string[] {
  return values.filter((value) => typeof value === 'string' && value !== '') as string[];
}
