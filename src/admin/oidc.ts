import type { IncomingMessage } from 'node:http';
import * as client from 'openid-client';
import type { OidcSettings } from './services.ts';
import { cookie, readCookie } from './session.ts';

const CALLBACK = '/sign-in/oidc/callback';
const ATTEMPT_SECONDS = 600;

/**
 * OpenID Connect: authorization code flow with PKCE, state and nonce. What the browser has
 * to bring back waits in a cookie of its own. People are known by a verified e-mail address.
 */
export class Oidc {
  readonly #settings: OidcSettings;
  readonly #origin: URL;
  #discovery: Promise<client.Configuration> | null = null;

  /** @param origin where people reach the pages */
  constructor(settings: OidcSettings, origin: URL) {
    this.#settings = settings;
    this.#origin = origin;
  }

  /** Where to send a person, and the cookie to send with them. */
  async begin(): Promise<{ to: string; cookie: string }> {
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
    return { to: to.href, cookie: this.#cookie(`${state}.${nonce}.${verifier}`, ATTEMPT_SECONDS) };
  }

  /**
   * The verified address of who comes back, in lower case; null when the provider vouches for none.
   * @throws Error when this is no answer to an attempt of this browser, or the provider refuses
   */
  async finish(req: IncomingMessage): Promise<string | null> {
    const [state, nonce, verifier] = (readCookie(req, this.#cookieName) ?? '').split('.');
    if (!state || !nonce || !verifier) throw new Error('no attempt of this browser');
    const provider = await this.#provider();
    const tokens = await client.authorizationCodeGrant(provider, new URL(req.url as string, this.#origin), {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    if (claims?.email_verified !== true || typeof claims.email !== 'string') return null;
    return claims.email.toLowerCase();
  }

  /** The cookie that ends an attempt. */
  get farewell(): string {
    return this.#cookie('', 0);
  }

  #cookie(value: string, seconds: number): string {
    return cookie(this.#cookieName, value, seconds, this.#origin.protocol === 'https:');
  }

  get #cookieName(): string {
    return this.#origin.protocol === 'https:' ? '__Host-tollgate-oidc' : 'tollgate-oidc';
  }

  /** Asked once; again after a failure. */
  #provider(): Promise<client.Configuration> {
    const { issuer, clientId, clientSecret } = this.#settings;
    const authentication = clientSecret === null ? client.None() : client.ClientSecretPost(clientSecret);
    // config.ts lets http through for this machine only
    const options =
      issuer.protocol === 'http:' ? { execute: [client.allowInsecureRequests], timeout: 10 } : { timeout: 10 };
    this.#discovery ??= client.discovery(issuer, clientId, undefined, authentication, options).catch((error) => {
      this.#discovery = null;
      throw error;
    });
    return this.#discovery;
  }
}
