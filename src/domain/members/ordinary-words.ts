/**
 * Words that tell nothing about the upstream, though a model may end in one: `openrouter/auto`, `router/medium`. They
 * are those that members of the formats hold, as the types of the official SDKs list them, and those by which routers
 * and operators name a choice. The list is closed: a word that is not in it, such as the name of a family of models, is
 * hidden like any other name.
 */
const WORDS = new Set(
  `
  aac adaptive advisor all allow allowlist always and any approximate asc assistant audio auto automatic back background base bash batch bio block
  body browser bytes calling cancelled chat clear click client code commentary compaction completed computer concise
  content continue coordinate create created critic custom cyber data date default delete deny desc detailed developer
  direct disabled discriminator document done down downsize drag easy echo edit embedding enabled end ephemeral eq error
  event except excluded exec exit expired explicit failed fallback fallbacks false fast file files find flac flat flex float
  format forward full function functions generate generating gif grammar gt gte headers high hipaa hover image images
  implicit in include incomplete inline input insert integer interactive interpreting invalid item items jpeg json key
  keypress language left length level line linux list local logs long low lt lte mac manual max mcp medium memory message
  messages method middle min minimal mixed mode model models move name namespace navigate ne never nin no none normal
  null number object off omitted on only opaque open or original other output overloaded page partial path pause pdf
  pending ping plain png priority pro program programmatic prompt provisioned python query queue queued reasoning redeemed
  ref refusal regex relative removed rename required response responses result right role scale score screenshot scroll
  search searching self server shell short shimmer signal simple small standard start started status steered stop stream
  strict string summarize summarized svg system text thinking thread tier timeout title token tokens tool tools transparent
  true type ubuntu ultrafast unavailable unknown unsupported up updated updates url usage user verbose verse version view
  wait warning wav web webp wheel windows word words xhigh yes zoom

  advanced agent ai api balanced basic best better beta big bigger biggest brain budget bulk business central cheap
  cheaper cheapest classic classifier cloud coder coding cold compact complete completion cool core creative daily debug
  deep deluxe demo deployment dev development draft dynamic eco economic economy embed embeddings endpoint english
  enterprise europe expert extended external extra faster fastest fine flash first free french fusion gateway general
  generic german global good hard heavy home host hot house instant instruct internal judge large larger largest last
  latest legacy light lite live llm load main maximum micro mid mini minimum multi nano native new next office old online
  optimal optimized ordinary planner plus power precise premium preview primary prime private prod production proxy
  public quality quick random rank ranker reasoner regional regular rerank reranker research reserve resilient router
  safe sandbox second secondary secure service shared size slow smaller smallest smart smarter smartest special speech
  speed stable staging store strong summary super support teacher team test testing think thinker third tiny top
  translate translation translator turbo ultra upstream variable vision voice weak work worker writer writing
  `
    .trim()
    .split(/\s+/),
);

/** Whether a name or host is an ordinary word. @param text in lower case */
export function isOrdinaryWord(text: string): boolean {
  return WORDS.has(text);
}
