/** The columns that the digest of a ledger row is of, in their order (sql/schema/ledger.sql). */
// biome-ignore format: a table
const COLUMNS = [
  'billing_month', 'request_id', 'company_id', 'api_key_id', 'model_slug', 'upstream_model', 'endpoint',
  'prompt_tokens', 'completion_tokens', 'cost_eur', 'price_input', 'price_output', 'usage_source', 'outcome',
  'occurred_at', 'cost_center', 'price_cache_read', 'price_cache_write', 'cached_tokens', 'cache_write_tokens',
  'end_user_id', 'rate', 'parts',
];

/** SQL for the digest of a row of `api_usage`, also where the row is on another server. @param alias of the table */
export function digestOfRow(alias: string): string {
  return `usage_digest(${COLUMNS.map((column) => `${alias}.${column}`).join(', ')})`;
}
