import { readFileSync } from 'node:fs';
import t from 'tap';
import { allowedBetas } from '../../../src/domain/members/betas.ts';

/** Features that the SDK knows and that do not go upstream, and why. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  'mcp-client': 'other hosts',
  'mcp-tunnels': 'other hosts',
  'code-execution': 'a sandbox',
  'advisor-tool': 'another model',
  'server-side-fallback': 'another model',
  'context-1m': 'a price of its own',
  'fast-mode': 'a price of its own',
  'fallback-credit': 'a price of its own',
  'files-api': 'stored files',
  skills: 'stored skills',
  'agent-memory': 'stored memory',
  'message-threads': 'stored messages',
  'cache-diagnosis': "another call, which may be another company's",
  'user-profiles': "a part of the operator's account",
  'user-profiles-billing': "a part of the operator's account",
  'inline-tools': 'tools that are not checked',
  'managed-agents': 'another endpoint',
  dreaming: 'another endpoint',
  'ce-plugins': 'another endpoint',
  'spend-limit-reads': 'another endpoint',
  'telemetry-destinations': 'another endpoint',
  webhooks: 'another endpoint',
  'admin-user-sign-out': 'another endpoint',
  'analytics-usage-cost': 'another endpoint',
  'experimental-claude-tag': 'another endpoint',
  'message-batches': 'another endpoint',
  'ce-user-management': 'another endpoint',
  'ce-claude-code-managed-settings': 'another endpoint',
  efs: 'another endpoint',
  'google-managed-data-controls': 'another endpoint',
};

const types = readFileSync(
  new URL('../../../node_modules/@anthropic-ai/sdk/resources/beta/beta.d.ts', import.meta.url),
  'utf8',
);
const known = [
  ...(/export type AnthropicBeta = ([^;]+);/.exec(types)?.[1] ?? '').matchAll(/'([^']+)'/g),
].map(([, beta]) => beta as string);

t.test('every feature that the SDK knows goes upstream, or is left out for a reason', async (t) => {
  t.ok(known.length > 50);
  for (const beta of known) {
    const feature = beta.replace(/-\d{4}-\d\d-\d\d$/, '');
    t.equal(allowedBetas(beta), feature in LEFT_OUT ? '' : beta, beta);
  }
  const features = known.map((beta) => beta.replace(/-\d{4}-\d\d-\d\d$/, ''));
  t.same(
    Object.keys(LEFT_OUT).filter((feature) => !features.includes(feature)),
    [],
    'none is left out for nothing',
  );
});

t.test('of several features those go upstream that may, and nothing else', async (t) => {
  t.equal(
    allowedBetas(
      'compact-2026-01-12, files-api-2025-04-14 ,claude-code-20250219,,x,context-management-2025-06-27',
    ),
    'compact-2026-01-12,claude-code-20250219,context-management-2025-06-27',
  );
  for (const no of ['compact', 'compact-2026', 'compact-2026-01-12-x', 'xcompact-2026-01-12'])
    t.equal(allowedBetas(no), '');
});
