import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { has } from './child.ts';

/** Why tests of TLS are skipped; false: they run. */
export const NO_OPENSSL = !has('openssl', 'version') && 'no openssl to make a certificate';

const KIND = [
  '-x509',
  '-newkey',
  'ec',
  '-pkeyopt',
  'ec_paramgen_curve:P-256',
  '-nodes',
  '-days',
  '2',
];

/** Makes a certificate that nobody trusts. @returns paths of it and of its key, in the folder */
export function makeCertificate(folder: string, name = 'localhost', address = `DNS:${name}`) {
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  const names = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${address}`];
  execFileSync('openssl', ['req', ...KIND, ...names, '-out', cert, '-keyout', key], {
    stdio: 'ignore',
  });
  return { cert, key };
}
