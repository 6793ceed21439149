/** Scopes a key may carry (spec section 5, rule 3), one per endpoint that needs one. */
export const SCOPES = ['chat', 'embeddings', 'assistants'] as const;
export type Scope = (typeof SCOPES)[number];

/** A set of scopes as bits, so that a check is one AND. */
export type ScopeSet = number;

export const SCOPE_BIT: Readonly<Record<Scope, ScopeSet>> = { chat: 1, embeddings: 2, assistants: 4 };

/** The bits of named scopes; unknown names grant nothing. */
export function scopeSet(names: readonly string[]): ScopeSet {
  let set = 0;
  for (const scope of SCOPES) if (names.includes(scope)) set |= SCOPE_BIT[scope];
  return set;
}
