/**
 * Upstream texts about refused requests, in the shapes that routers wrap them in (contract section 4,
 * "Upstream error texts"). What is behind the wrapping is the model's own reason, for the caller.
 */

/** Most wrappings of one text: routers may stand behind routers. */
const MOST_WRAPPED = 5;
/** Longer texts hold no reason, but perhaps a request of megabytes; some patterns below take time by the square of it. */
export const MAX_REASON = 4000;

/** "litellm.BadRequestError: AzureException BadRequestError - ", "Error code: 400 - ", "azure-openai error: " */
const WRAPPING =
  /^(?:(?:[\w.]+(?:Error|Exception)\b[\s:-]*)+|error code: \d{3}(?: -|:)\s*|(?:[a-z]+[-_ ])?[a-z]+ error: |b(?=['"{]))/i;

/** A `message` within a dict as JSON or Python writes it. The last group is its text, escapes and all. */
const MESSAGE = /[{,]\s*(['"])(?:message|msg)\1\s*:\s*(['"])((?:(?!\2)[^\\]|\\.)*)\2/s;

/** What routers append about fallbacks and attempts. */
const ROUTING =
  /(?<![\s,.;])[\s,.;]*\b(?:received model group|available model group|no fallback model|(?:context_window_)?fallbacks?\s*=|model_group\s*=|litellm retried).*$/is;

/** The reason inside a text of at most MAX_REASON characters: without class names, status codes, dicts around it, and what is said about routing. */
export function innerReason(text: string): string {
  let reason = text.trim();
  for (let n = 0; n < MOST_WRAPPED; n++) {
    const bare = reason
      .replace(WRAPPING, '')
      .replace(/^['"](?=\s*\{)/, '')
      .trimStart();
    const isDict = /^[[{]/.test(bare);
    const message = isDict ? MESSAGE.exec(bare) : null;
    if (isDict && message === null) return ''; // a dict without a message is a trace
    const next = message === null ? bare : unescaped(message[3] as string);
    if (next === reason) break;
    reason = next;
  }
  return reason.replace(ROUTING, '').trim();
}

function unescaped(text: string): string {
  return text.replace(/\\(u[0-9a-f]{4}|.)/gis, (_, code: string) => {
    if (code.length > 1) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return code === 'n' || code === 'r' ? '\n' : code === 't' ? ' ' : code;
  });
}

/** Whether an error says that the model behind us does not exist: then the mapping is wrong, not the request. */
export function isUnknownModel(message: string, code: string, param: string): boolean {
  if (param === 'model' || UNKNOWN_MODEL_CODES.has(code.toLowerCase())) return true;
  return UNKNOWN_MODEL.some((pattern) => pattern.test(message));
}

const UNKNOWN_MODEL_CODES: ReadonlySet<string> = new Set([
  ...['model_not_found', 'model_not_exist', 'invalid_model', 'unknown_model', 'model_decommissioned'],
  ...['deploymentnotfound', 'model_not_available', 'unsupported_model', 'invalid_model_error'],
]);

const UNKNOWN_MODEL: readonly RegExp[] = [
  /\binvalid model(?: name| identifier)?(?: passed|:|\b.*\bpassed in)/i, // LiteLLM, Mistral
  /\bmodel identifier is invalid\b/i, // Bedrock
  /\bnot a valid model\b/i, // OpenRouter
  /\bmodel\b(?: ['"`]?[\w./:@-]+['"`]?)?,? (?:does not|doesn't|not) exist\b/i, // OpenAI, vLLM, DeepSeek
  /\bmodels?\b[ /]['"`]?[\w./:@-]+['"`]? (?:is |was )?not (?:be )?found\b/i, // Ollama, Gemini
  /\bmodel\b(?: ['"`]?[\w./:@-]+['"`]?)? has been (?:decommissioned|deprecated|retired)/i, // Groq
  /\bllm provider not provided\b/i, // LiteLLM
  /\bno (?:healthy )?deployments?\b.*\bavailable\b|\bno healthy deployments?\b/i, // LiteLLM
  /\bdeployment\b.*\bdoes not exist\b/i, // Azure
  /\bx-portkey-/i, // a router that lacks its configuration
];

/** Whether an error speaks of the operator's account: its key, credit, budget or access. No caller can mend that. */
export function isOfAccount(message: string, code: string): boolean {
  return ACCOUNT_CODES.has(code.toLowerCase()) || ACCOUNT.some((pattern) => pattern.test(message));
}

const ACCOUNT_CODES: ReadonlySet<string> = new Set([
  ...['budget_exceeded', 'insufficient_quota', 'billing_hard_limit_reached', 'billing_not_active', 'arrearage'],
  ...['account_deactivated', 'invalid_api_key', 'model.accessdenied'],
]);

const ACCOUNT: readonly RegExp[] = [
  /\bbudget has been exceeded\b|\bover budget\b|\bExceeded(?:Token)?Budget\b/i, // LiteLLM
  /\bcredit balance\b|\b(?:insufficient|not enough) (?:credits?|balance|funds|quota)\b/i, // Anthropic, DeepSeek
  /\bspecified API usage limits\b|\bbilling hard limit\b/i, // Anthropic, OpenAI
  /\bAPI key (?:is )?(?:not valid|not found|invalid|expired)\b|\b(?:incorrect|invalid) API key\b/i, // Gemini, xAI
  /\b(?:organization|account|workspace) has been (?:disabled|suspended)\b/i, // Anthropic
  /\baccount is in good standing\b|\baccess to (?:the )?model\b.{0,80}\bdenied\b/i, // Alibaba
  /\bdon['’]t have access to the model\b|\buser location is not supported\b/i, // Bedrock, Gemini
];

/** Whether the provider's content filter refused the prompt. */
export function isFiltered(message: string, code: string): boolean {
  return (
    code === 'content_filter' || /\bcontent (?:management policy|filter)|ResponsibleAIPolicyViolation/i.test(message)
  );
}

/** A text that names products, providers, headers or models, so that no part of it is for the caller. */
export const TELLING = new RegExp(
  [
    // products and providers, also as parts of names
    '(?<![a-z0-9])(?:lite_?llm|open_?router|portkey|helicone|azure|open_?ai|anthropic|bedrock|sage_?maker|v_?llm)',
    '(?<![a-z0-9])(?:sg_?lang|ollama|hugging_?face|langfuse|pydantic|fastapi|uvicorn|dashscope|databricks|cloudflare)',
    '(?<![a-z0-9])(?:kong|vertex|google|gemini|mistral(?:ai)?|cohere|groq|together_?ai|fireworks|deepseek|llama)(?![a-z0-9])',
    '(?<![a-z0-9])(?:triton|tensorrt|xai|perplexity|replicate|watsonx|nvidia|amazon|aws|alibaba|cerebras)(?![a-z0-9])',
    '(?<![a-z0-9])(?:qwen|claude|chatgpt|gpt-?\\d|kubernetes|nginx|kimi-?k?\\d|moonshot|glm-?\\d|grok-?\\d|gemma-?\\d)',
    '(?<![a-z0-9])(?:mixtral|codestral|minimax-?m|doubao|hunyuan|sambanova|deepinfra|volcengine|baseten|nebius|bifrost)',
    // headers, paths and classes
    '(?<![a-z0-9])(?:x-[a-z]+-[a-z-]+|/v1/|/(?:app|usr|opt|home)/)|[a-z]\\w+(?:Error|Exception)(?![a-z])',
  ].join('|'),
  'i',
);
