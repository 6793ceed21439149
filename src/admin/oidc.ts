import type { Context } from 'hono';
import { deleteCookie, setCookie } from 'hono/cookie';
import type { CookieOptions } from 'hono/utils/cookie';
import * as client from 'openid-client';
import { cookieOptions } from './session.ts';
import type { OidcSettings } from './settings.ts';

const CALLBACK = '/sign-in/oidc/callback';
const COOKIE = 'tollgate-oidc';
const ATTEMPT_SECONDS = 600;
const PROVIDER_SECONDS = 10;

interface FinishedAttempt {
  readonly email: string | null;
  readonly next: string;
  readonly invitation: string;
}

/**
 * Sign-in with OpenID Connect: authorization code flow with PKCE, state and nonce, which a cookie
 * keeps until the browser comes back. Users are found by their verified e-mail address.
 */
export class Oidc {
  readonly #settings: OidcSettings;
  readonly #origin: URL;
  readonly #options: CookieOptions;
  #discovery: Promise<client.Configuration> | null = null;

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
   * @returns the provider's address to redirect to
   */
  async begin(c: Context, next: string, invitation: string): Promise<string> {
    const provider = await this.#provider();
    const verifier = client.randomPKCECodeVerifier();
    const state = client.randomState();
    const nonce = client.randomNonce();
    const to = client.buildAuthorizationUrl(provider, {
      redirect_uri: new URL(CALLBACK, this.#origin).href,
      scope: 'openid email',
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
    });
    const attempt = [state, nonce, verifier, Buffer.from(next).toString('base64url'), invitation].join('.');
    setCookie(c, COOKIE, attempt, { ...this.#options, maxAge: ATTEMPT_SECONDS });
    return to.href;
  }

  /**
   * Ends an attempt and removes its cookie.
   * @returns the verified e-mail address in lower case, null when the provider confirms none; and what `begin` was given
   * @throws Error when this browser began no such attempt, or the provider refuses
   */
  async finish(c: Context): Promise<FinishedAttempt> {
    const attempt = deleteCookie(c, COOKIE, this.#options) ?? '';
    const [state, nonce, verifier, next = '', invitation = ''] = attempt.split('.');
    if (!state || !nonce || !verifier) throw new Error('this browser began no attempt');
    const callback = new URL(CALLBACK + new URL(c.req.url).search, this.#origin);
    const tokens = await client.authorizationCodeGrant(await this.#provider(), callback, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    const isVerified = claims?.email_verified === true && typeof claims.email === 'string';
    // the sign of kelvin becomes a k, which would be somebody else's address
    const email = isVerified ? (claims.email as string).replaceAll('\u212a', '\ufffd').toLowerCase() : null;
    return { email, next: Buffer.from(next, 'base64url').toString(), invitation };
  }

  /** The provider's configuration: fetched once, and again after a failure. */
  #provider(): Promise<client.Configuration> {
    const { clientId, clientSecret } = this.#settings;
    const issuer = new URL(this.#settings.issuer);
    const authentication = clientSecret === null ? client.None() : client.ClientSecretPost(clientSecret);
    // OpenID Connect lets TLS stand for the token's signature; what ends TLS before the provider could change claims
    const execute = [client.enableNonRepudiationChecks];
    if (issuer.protocol === 'http:') execute.push(client.allowInsecureRequests); // config.ts accepts it for this machine only
    const options = { execute, timeout: PROVIDER_SECONDS };
    this.#discovery ??= client.discovery(issuer, clientId, undefined, authentication, options).catch((error) => {
      this.#discovery = null;
      throw error;
    });
    return this.#discovery;
  }
}
