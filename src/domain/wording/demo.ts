/** Names of what `make run` creates on its first start. By them later starts find it again. */
export const DEMO_COMPANY = 'Demo company';
/** Actor of the audit log. */
export const DEMO_ACTOR = 'make run';
export const DEMO_ASSISTANT = 'Summariser';

/** Models by their slugs: internal name, kind, whether in the EU, EUR per 1000 tokens of prompt and of completion. */
export const DEMO_MODELS = {
  'demo-chat': ['internal-demo-chat', 'chat', true, '0.00015', '0.0006'],
  'demo-chat-us': ['internal-demo-chat-us', 'chat', false, '0.0001', '0.0004'],
  'demo-embedding': ['internal-demo-embedding', 'embedding', true, '0.00002', '0'],
  'demo-rerank': ['internal-demo-rerank', 'rerank', true, '0.00002', '0'],
} as const;
