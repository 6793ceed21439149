/**
 * Every wording by which engines, providers and routers say that the input is longer than the model takes. Clients
 * shorten their history when they are told so (`context_length_exceeded`), and give up at any other bad request.
 */

/** One wording, and the programs that use it. */
const WORDINGS: readonly (readonly [pattern: RegExp, source: string])[] = [
  // names, as codes, types and classes; they may stand within a message that wraps another
  [
    /\bcontext_?length_?exceeded|\bcontext_?window_?exceeded/i,
    'OpenAI, Azure; LiteLLM (ContextWindowExceededError)',
  ],
  [/\bexceed_context_size_error\b/, 'llama.cpp'],
  [/\bmodel_context_window_exceeded\b/, 'Z.ai, Anthropic (reason to stop)'],
  [/\bmodel_max_prompt_tokens_exceeded\b/, 'GitHub Copilot'],
  // sentences
  [
    /\bmaximum context (?:length|limit|size)\b/i,
    'OpenAI, Azure, vLLM, SGLang, DeepSeek, OpenRouter, Mistral, Fireworks',
  ],
  [/\bexceeds? the context window\b/i, 'OpenAI (responses)'],
  [/\binput tokens exceed the configured limit\b/i, 'OpenAI (gpt-5)'],
  [
    /\breduce the (?:length|number of tokens) (?:of|in) the (?:input|messages|prompt)\b/i,
    'OpenAI, vLLM, Groq, Cerebras',
  ],
  [/\bprompt (?:is )?too long\b/i, 'Anthropic, Ollama, Fireworks'],
  [/\bexceeds? (?:the )?context limit\b/i, 'Anthropic (input and max_tokens together)'],
  [
    /\blonger than the (?:maximum model|model['’]s context) length\b/i,
    'vLLM (decoder prompt), SGLang, Together',
  ],
  [/\b(?:multimodal prompt|prompt \([^)]*\)) is too long\b/i, 'SGLang, vLLM'],
  [
    /\binput length\b.{0,30}\bexceeds the maximum allowed (?:input )?length\b/i,
    'SGLang, OpenRouter (Poolside)',
  ],
  [/\bexceeds the available context size\b/i, 'llama.cpp'],
  [/\bcontext size has been exceeded\b/i, 'llama.cpp while it generates, LM Studio'],
  [/\binput (?:\(\d+ tokens\) )?is too large to process\b/i, 'llama.cpp (embeddings, with 500)'],
  [/\bgreater than the context length\b|\bcontext length of only \d/i, 'LM Studio'],
  [/\binput length exceeds the (?:maximum )?context length\b/i, 'Ollama (embeddings)'],
  [/\binput is too long for (?:the )?requested model\b/i, 'Bedrock (Claude)'],
  [/\btoo many input tokens\b|\bexpected maxLength: \d+, actual: \d+/i, 'Bedrock (Titan)'],
  [/\binput token count\b.{0,60}\b(?:exceeds|only supports)\b/i, 'Gemini, Vertex'],
  [/\bmaximum prompt length is\b/i, 'xAI'],
  [/\btoo large for model with \d+ maximum\b/i, 'Mistral'],
  [/\bexceeded model token limit\b|\btotal message size \d+ exceeds limit\b/i, 'Moonshot'],
  [/\bprompt exceeds max(?:imum)? length\b/i, 'Z.ai (code 1261)'],
  [/\brange of input length should be\b/i, 'DashScope'],
  [/\bcontext window exceeds limit\b/i, 'MiniMax'],
  [/\btoo many tokens: (?:total|size)\b/i, 'Cohere'],
  [
    /`?inputs`? tokens \+ `?max_new_tokens`? must be\b|`inputs` must have less than\b/i,
    'TGI, TEI, Together',
  ],
  [
    /\bplease reduce your message size\b/i,
    'Groq with 413: alone larger than what a minute allows, so waiting is no help',
  ],
  [/\bcurrent length is \d+ while limit is\b/i, 'Cerebras'],
  [/\bexceeded this model context window limit\b/i, 'Cloudflare Workers AI'],
  [/\bprompt token count of \d+ exceeds\b/i, 'GitHub Copilot'],
  [/\bconfigured context size is\b/i, 'DS4'],
  [/\bprompt_tokens \(\d+\) must be less than\b/i, 'SiliconFlow'],
  [/\bmaximum (?:supported )?sequence length\b/i, 'SambaNova'],
  [/\bmax(?:imum)? tokens of \d+ exceeded\b/i, 'Snowflake'],
  [/\btotal tokens of image and text exceed\b/i, 'Volcengine'],
  [/\bprompt tokens too long\b/i, 'Baidu'],
  [/\brequested \d+ tokens, max \d+ tokens per request\b/i, 'OpenAI (embeddings)'],
  [
    /\bmax allowed tokens per submitted batch\b|\btoo many tokens overall\b/i,
    'Voyage, Mistral (embeddings)',
  ],
  [
    /\binput tokens over the limit\b|\btoo many tokens in (?:the |your )?(?:prompt|input|request)\b/i,
    'gateways',
  ],
  [/\b(?:prompt|context) length \(?\d+\)? is greater than max_seq_len\b/i, 'TabbyAPI'],
  [/\bsum of prompt length\b.{0,80}\bshould not exceed\b/i, 'TensorRT-LLM'],
  [/超过.{0,8}最大.{0,6}(?:长度|上下文)|上下文长度.{0,8}超/, 'Chinese providers'],
  // the rest speaks of too much, for a context window or for the tokens of a prompt
  [
    /\b(?:exceed|overflow|longer than|larger than|greater than|too (?:long|large|big)|not enough|does not fit)\w*\b.{0,60}\bcontext[ _-](?:window|length|size|limit)\b/i,
    'others',
  ],
  [
    /\bcontext[ _-](?:window|length|size|limit)\b.{0,60}\b(?:exceed|overflow|too (?:small|short)|not enough|reached)/i,
    'others',
  ],
  [
    /\b(?:prompt|inputs?)\b(?!.{0,60}\b(?:output|completion)\b).{0,40}\b(?:tokens?|length)\b.{0,40}\b(?:exceeds?|exceeded|(?:is|are) (?:greater|larger|longer|more) than)\b.{0,60}\b(?:model|max(?:imum)?|limit|max_model_len|max_seq_len|session_len|n_ctx)\b/i,
    'others',
  ],
  [
    /\b(?:prompt|inputs?|request|messages?)\b(?!.{0,80}\b(?:output|completion|max_\w+)\b).{0,30}\bexceed\w*\b.{0,40}\b(?:maximum|limit|allowed)\b.{0,40}\btokens?\b/i,
    'others',
  ],
  [
    /\binput (?:text )?(?:is )?too long\b|\b(?:conversation|prompt) (?:is )?too (?:long|large|big)\b/i,
    'others',
  ],
];

/**
 * The same in any order of words: a sentence has a number, tokens, and that something exceeds something, and speaks of
 * neither the answer nor of a member that counts other tokens.
 */
const SENTENCES = /(?<=[.!?;])\s+|\n/;
const TOO_MANY: readonly RegExp[] = [
  /\btokens?\b/i,
  /\d/,
  /\bexceed(?:s|ed|ing)?\b|\b(?:sur|by)pass(?:es|ed)\b|\b(?:over|above|beyond) (?:the |its |a |an? allowed )?(?:\w+ )?(?:limit|max|\d)|\b(?:greater|larger|longer|more|higher|bigger) than\b|\d\W*>\W*\d/i,
];
const OF_OTHER_TOKENS =
  /\b(?:outputs?|completions?|generat\w*|response|answer|thinking|logit_bias|stop|tools?|budget\w*|must|should)\b|\bmax(?:imum)?[_ ](?:new_|output_|completion_|new )?tokens?\b\W*(?:value\W*)?(?:\d+|is|of)?\W*exceed|\bmax_(?:new_|output_|completion_)?tokens\b/i;

function isTooMany(words: string): boolean {
  return words
    .split(SENTENCES)
    .some(
      (sentence) =>
        TOO_MANY.every((pattern) => pattern.test(sentence)) && !OF_OTHER_TOKENS.test(sentence),
    );
}

/** Texts about a rate or a quota. They may also speak of too many tokens. */
const OF_RATE =
  /\brate[ _-]?limit|\btoo many requests|\b(?:tokens?|requests?)[ _-]?(?:per|\/)[ _-]?(?:min|minute|day|hour|second)|\b[IO]?[TR]P[MD]\b|\bthrottl|\bquota\b|\bplease wait\b/i;
/** Speaks of a rate, and means a request that is too large for it alone. */
const ALONE_TOO_LARGE = /\bplease reduce your message size\b/i;
const CODE = 'context_length_exceeded';

/**
 * Whether an error says that the input is longer than the model takes.
 * @param names its code and its type
 */
export function isOverflow(message: string, names: string): boolean {
  if (names.includes(CODE)) return true;
  const words = `${names} ${message}`;
  if (OF_RATE.test(words) && !ALONE_TOO_LARGE.test(words)) return false;
  return WORDINGS.some(([pattern]) => pattern.test(words)) || isTooMany(message);
}
