/**
 * Upstream texts about refused requests, in the shapes that routers wrap them in (contract section 4, "Upstream error
 * texts"). Inside the wrapping is the model's own reason, for the caller.
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

/** Texts that routers append about fallbacks and attempts. */
const ROUTING =
  /(?<![\s,.;])[\s,.;]*\b(?:received model group|available model group|no fallback model|(?:context_window_)?fallbacks?\s*=|model_group\s*=|litellm retried).*$/is;

/** What llama.cpp's JSON library puts before its words, also behind the name of a member. */
const PARSER = /\[json\.exception\.\w+\.\d+\]\s*/g;

/**
 * The reason inside a text of at most MAX_REASON characters: without class names, status codes, dicts around it, and
 * words about routing.
 */
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
  return reason.replace(ROUTING, '').replace(PARSER, '').trim();
}

function unescaped(text: string): string {
  return text.replace(/\\(u[0-9a-f]{4}|.)/gis, (_, code: string) => {
    if (code.length > 1) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return code === 'n' || code === 'r' ? '\n' : code === 't' ? ' ' : code;
  });
}

/** Whether an error says that the model behind us does not exist: then the mapping is wrong, not the request. */
export function isUnknownModel(message: string, code: string, param: string): boolean {
  if (
    UNKNOWN_MODEL_CODES.has(code.toLowerCase()) ||
    UNKNOWN_MODEL.some((pattern) => pattern.test(message))
  )
    return true;
  return (
    param === 'model' && !OF_ABILITY.test(message) && (message === '' || NO_SUCH.test(message))
  );
}

/** Speaks of what the model can do: with its name, that is a reason for the caller. */
const OF_ABILITY =
  /\b(?:endpoint\b|modalit|audio|image|vision|video|stream|tool|function|(?:chat|completions?|responses|embeddings?|assistants) (?:model|API)|v1\/\w+|only supported|does(?: not|n['’]t) support|cannot be used (?:with|for|in))/i;
/** Says of what it names that it is not there. */
const NO_SUCH =
  /\b(?:unknown|no such|unrecogni[sz]ed|undefined|invalid|missing|required|(?:must|should) be (?:one of|['"[])|not (?:found|available|exist|recogni[sz]ed|allowed|a valid|supported|deployed|loaded)|does(?: not|n['’]t) exist|unavailable|no longer|deprecated|retired|no access|have access)\b/i;

// biome-ignore format: a table
const UNKNOWN_MODEL_CODES: ReadonlySet<string> = new Set([
  'model_not_found', 'model_not_exist', 'invalid_model', 'unknown_model', 'model_decommissioned',
  'deploymentnotfound', 'model_not_available', 'invalid_model_error',
]);

const UNKNOWN_MODEL: readonly RegExp[] = [
  /\binvalid model(?: name| identifier)?(?: passed|:|\b.*\bpassed in)/i, // LiteLLM, Mistral
  /\bmodel identifier is invalid\b/i, // Bedrock
  /\bnot a valid model\b/i, // OpenRouter
  /\bmodel\b(?: ['"`]?[\w./:@-]+['"`]?)?,? (?:does not|doesn't|not) exist\b/i, // OpenAI, vLLM, DeepSeek
  /\bmodels?\b[ /]['"`]?[\w./:@-]+['"`]? (?:is |was )?not (?:be )?found\b/i, // Ollama, Gemini
  /\bmodel\b(?: ['"`]?[\w./:@-]+['"`]?)? has been (?:decommissioned|deprecated|retired)/i, // Groq
  /\b(?:unknown|no such|unrecogni[sz]ed) model\b/i, // Cohere, gateways
  /\bllm provider not provided\b/i, // LiteLLM
  /\bno (?:healthy )?deployments?\b.*\bavailable\b|\bno healthy deployments?\b/i, // LiteLLM
  /\bdeployment\b.*\bdoes not exist\b/i, // Azure
  /\bmodel ['"`]?[\w./:@-]+['"`]? is (?:not (?:supported|available)|unsupported|unavailable)(?=[.,;:!]?(?:\s|$))(?! (?:for|in|with|by|on|when|at|via)\b)/i, // Voyage
  // a list of the provider's models, whatever is said before it
  /\b(?:supported|available|valid|allowed|known|existing|possible|permitted|following) (?:models|engines|deployments|model (?:names|ids|identifiers))\b[^.]{0,30}?(?:\b(?:are|include)\b|[:[(])/i,
  /\bmodels?\b.{0,40}\b(?:must|should|has to|needs to|can only) be (?:one )?(?:of\b|among\b|in \[|['"[(])/i, // Jina
  /\bx-portkey-/i, // a router that lacks its configuration
];

/** Whether an error speaks of the operator's account: its key, credit, budget or access. No caller can mend that. */
export function isOfAccount(message: string, code: string): boolean {
  return ACCOUNT_CODES.has(code.toLowerCase()) || ACCOUNT.some((pattern) => pattern.test(message));
}

// biome-ignore format: a table
const ACCOUNT_CODES: ReadonlySet<string> = new Set([
  'budget_exceeded', 'insufficient_quota', 'billing_hard_limit_reached', 'billing_not_active', 'arrearage',
  'account_deactivated', 'invalid_api_key', 'model.accessdenied', 'unsupported_country_region_territory',
  'no_db_connection', // LiteLLM without a database, of any key but its master key
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
    code === 'content_filter' ||
    /\bcontent (?:management policy|filter)|ResponsibleAIPolicyViolation/i.test(message)
  );
}

/** Whether a moderation or a safety system refused the prompt, as providers say with 403. */
export function isModerated(message: string, code: string): boolean {
  return isFiltered(message, code) || MODERATED.test(`${code} ${message}`);
}

const MODERATED = new RegExp(
  [
    'violates? (?:our |the )?(?:usage|content) (?:guideline|polic)|safety_check|safety system', // xAI, OpenAI
    'requires? moderation|(?:input|prompt|content|request) (?:was|has been|is) flagged|flagged_input', // OpenRouter
    'content_policy_violation|data_inspection_failed|inappropriate content|sensitive words', // OpenAI, DashScope, Z.ai
  ].join('|'),
  'i',
);

/** Whether a 404 speaks of an item of the request that would have to be stored, which the gateway never lets happen. */
export function isOfStoredItem(message: string, code: string): boolean {
  return code === 'previous_response_not_found' || STORED_ITEM.test(message);
}

const STORED_ITEM = /\bitems? (?:are|is) not persisted\b|\bitem with id\b.{0,200}\bnot found\b/i; // OpenAI

/** Whether a 403 or 404 is about the request: it names one of its members, or an ability that the model lacks. */
export function isOfRequest(message: string, param: string): boolean {
  if (param !== '' && param !== 'model') return !OF_OPERATOR.test(param);
  return OF_REQUEST.test(message) || (param === 'model' && OF_ABILITY.test(message));
}

const OF_OPERATOR = /^(?:.*key|authorization|organi[sz]ation|project|none|null)$/i;
const OF_REQUEST = /\bno endpoints found that support\b|\bpermission to access the file\b/i; // OpenRouter, Gemini

/** Whether an engine blames the request, though its status blames the engine. */
export function isOfCaller(message: string): boolean {
  return OF_CALLER.some((pattern) => pattern.test(message));
}

const OF_CALLER: readonly RegExp[] = [
  /\b(?:image|audio|video|vision|multimodal)\w*(?: inputs?)? (?:is|are) not (?:supported|enabled)\b/i, // llama.cpp
  /\bmissing data required for image input\b/i, // Ollama
  /\b(?:does not|doesn['’]t|do not|cannot) (?:support|accept|take|process)\b.{0,40}\b(?:image|vision|audio|video|multimodal|tool|function|logprob|thinking)/i, // Ollama
  /\bonly (?:one completion choice is allowed|no echo is supported)\b/i, // llama.cpp
  /\b(?:unsupported|illegal|unknown|missing|unrecogni[sz]ed|invalid) (?:param(?:eter)?|role)\b/i, // llama.cpp
  /\b(?:failed|unable) to (?:load|decode|parse|open|download|fetch)\b.{0,20}\b(?:image|audio|video|grammar|schema|messages?|tools?)\b/i, // llama.cpp
  /\bcannot identify image file\b|\bimage (?:features|tokens)\b.{0,60}\bdo(?:es)? not match\b/i, // vLLM, SGLang
  /\bat most \d+ (?:image|audio|video)/i, // vLLM
  /(?:^|[^\w])['"`]?(?:n|best_of|top_[kp]|min_p|temperature|logprobs|top_logprobs|max(?:_new|_completion|_output)?_tokens|stop|seed|response_format|tool_choice)['"`]?(?:\.\w+| type)? (?:must|should|cannot|requires?|is not (?:supported|allowed))\b/i,
  /\b['"]?(?:messages|prompt|input|content)['"]? (?:is|are) required\b|\bexpected ['"]?(?:messages|content)['"]?/i, // llama.cpp
  /\bcannot (?:use|have)\b.{0,60}\b(?:grammar|json_schema|assistant messages)\b|\bprefill is incompatible\b/i, // llama.cpp
  /\bunsupported content\[\]|\broles must alternate\b/i, // llama.cpp, templates
];

/** The status that the words of an error stand for, where it tells none: 429, 503, or 0. */
export function statusOfWords(message: string): number {
  if (LIMITED.test(message)) return 429;
  return BUSY.test(message) ? 503 : 0;
}

const LIMITED =
  /\brate[ _-]?limit(?:ed|s|ing)?\b|\btoo many requests\b|\bthrottl|\b(?:tokens|requests) per (?:min|day)/i;
const BUSY = new RegExp(
  [
    '\\boverloaded\\b|\\b(?:at|over|no|insufficient|exceeded) capacity\\b|\\bhigh (?:demand|load|traffic)\\b',
    '\\bloading (?:the )?model\\b|\\bmodel\\b.{0,60}\\b(?:is|still)(?: currently)? (?:loading|warming up|starting)\\b',
    '\\b(?:server|service|engine|model)s?\\b.{0,30}\\b(?:busy|(?:temporarily |currently )?unavailable|not (?:yet )?ready)\\b',
    '\\bno (?:healthy|available) (?:upstream|backend|server|worker|instance)s?\\b|\\bqueue is full\\b|\\bslow down\\b',
    '\\bmaximum pending requests\\b',
  ].join('|'),
  'i',
);

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
