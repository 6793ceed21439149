import { OAuth2Server } from 'oauth2-mock-server';
import type { Test } from 'tap';
import { freePort } from '../../support/port.ts';
import { startOffice } from '../people.ts';

/** An office where people sign in with OpenID Connect, and their provider, in this process. @param env of the office, beside what names the provider */
export async function startOidcOffice(t: Test, env: Record<string, string> = {}) {
  const provider = new OAuth2Server();
  await provider.issuer.keys.generate('RS256');
  await provider.start(0, '127.0.0.1');
  t.teardown(() => provider.stop());
  const issuer = `http://127.0.0.1:${provider.address().port}`;
  provider.issuer.url = issuer;
  const port = await freePort();
  const office = await startOffice(t, {
    ADMIN_PORT: String(port),
    ADMIN_URL: `http://127.0.0.1:${port}`,
    OIDC_ISSUER: issuer,
    OIDC_CLIENT_ID: 'tollgate',
    OIDC_CLIENT_SECRET: 'not so secret',
    ...env,
  });
  return { provider, issuer, office };
}
