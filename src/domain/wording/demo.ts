/** Names of what `make run` creates on its first start. By them later starts find it again. */
export const DEMO_COMPANY = 'Demo company';
/** Actor of the audit log. */
export const DEMO_ACTOR = 'make run';
export const DEMO_ASSISTANT = 'Summariser';

/** Names of the models of the demo upstream. */
export const DEMO_CHAT_MODEL = 'internal-demo-chat';
export const DEMO_EMBEDDING_MODEL = 'internal-demo-embedding';
export const DEMO_RERANK_MODEL = 'internal-demo-rerank';
/** Internal names of the models by their slugs. */
export const DEMO_MODELS: Readonly<Record<string, string>> = {
  'demo-chat': DEMO_CHAT_MODEL,
  'demo-chat-us': `${DEMO_CHAT_MODEL}-us`,
  'demo-embedding': DEMO_EMBEDDING_MODEL,
  'demo-rerank': DEMO_RERANK_MODEL,
};
