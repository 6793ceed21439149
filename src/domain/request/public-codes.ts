/**
 * Codes by which the reference format says what is wrong with a request: programs branch on them, so they are relayed
 * (contract section 4, "Upstream error texts"). Codes of keys, accounts, models and limits are none of them.
 */
// biome-ignore format: a table
const PUBLIC_CODES: ReadonlySet<string> = new Set([
  // members
  'unknown_parameter', 'unsupported_parameter', 'missing_required_parameter',
  // values
  'invalid_type', 'invalid_value', 'unsupported_value', 'invalid_prompt', 'unsupported_model',
  'integer_above_max_value', 'integer_below_min_value', 'decimal_above_max_value', 'decimal_below_min_value',
  'string_above_max_length', 'string_below_min_length', 'empty_string', 'property_name_above_max_length',
  'array_above_max_length', 'array_below_min_length', 'empty_array', 'object_above_max_properties',
  'invalid_function_parameters', 'invalid_json_schema', 'invalid_schema', 'invalid_encrypted_content', 'invalid_base64',
  // images and files
  'invalid_image', 'invalid_image_format', 'invalid_image_url', 'invalid_base64_image', 'invalid_image_mode',
  'image_too_large', 'image_too_small', 'image_parse_error', 'image_file_too_large', 'image_file_not_found',
  'empty_image_file', 'unsupported_image_media_type', 'failed_to_download_image', 'unsupported_file', 'invalid_file',
  // what may not be asked
  'content_filter', 'content_policy_violation', 'image_content_policy_violation', 'moderation_blocked',
  'bio_policy', 'cyber_policy', 'misalignment_policy_violation',
]);

export function isPublicCode(code: string): boolean {
  return PUBLIC_CODES.has(code);
}
