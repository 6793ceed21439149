/**
 * Features of the Messages API that `anthropic-beta` may switch on: they end with the own call. Left out are those that
 * reach what is stored, other hosts, models or a sandbox, those with a price of their own, those of other endpoints, and
 * `inline-tools`: tools that messages define are not checked. test/domain/members/betas.test.ts has the reason for each that
 * the SDK knows.
 */
const FEATURES = [
  'adaptive-thinking',
  'advanced-tool-use',
  'claude-code',
  'compact',
  'computer-use',
  'context-management',
  'dev-full-thinking',
  'effort',
  'extended-cache-ttl',
  'fine-grained-tool-streaming',
  'interleaved-thinking',
  'max-tokens-3-5-sonnet',
  'mid-conversation-output-config',
  'mid-conversation-system',
  'mid-conversation-system-clear-at',
  'mid-conversation-tool-changes',
  'model-context-window-exceeded',
  'output-128k',
  'output-300k',
  'pdfs',
  'per-turn-control',
  'prompt-caching',
  'prompt-caching-scope',
  'redact-thinking',
  'structured-outputs',
  'task-budgets',
  'thinking-binding-controls',
  'thinking-display-updates',
  'thinking-token-count',
  'token-counting',
  'token-efficient-tools',
  'tool-examples',
];

/** A feature with its date. */
const ALLOWED = new RegExp(`^(?:${FEATURES.join('|')})-\\d{4}-?\\d{2}-?\\d{2}$`);

/** The features of an `anthropic-beta` header that may go upstream; '' for none. The others are left out. */
export function allowedBetas(header: string): string {
  return header
    .split(',')
    .map((name) => name.trim())
    .filter((name) => ALLOWED.test(name))
    .join(',');
}
