/** Scopes a key may carry (spec section 5, rule 3), one per endpoint that needs one. */
export const SCOPES = ['chat', 'embeddings', 'assistants'] as const;
export type Scope = (typeof SCOPES)[number];

/** A set of scopes as bits, so that a check is one AND. */
export type ScopeSet = number;

export const SCOPE_BIT: Readonly<Record<Scope, ScopeSet>> = { chat: 1, embeddings: 2, assistants: 4 };

export function isScope(name: string): name is Scope {
  return Object.hasOwn(SCOPE_BIT, name);
}

/** The bits of named scopes; unknown names grant nothing. */
export function scopeSet(names: readonly string[]): ScopeSet {
  let set = 0;
  for (const name of names) if (isScope(name)) set |= SCOPE_BIT[name];
  return set;
}
