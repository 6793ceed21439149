import { ALLOWANCE } from '../budget.ts';
import { type ErrorName, statusOfError } from '../errors.ts';
import { ALLOWED_MODELS, DISABLED_MODELS } from '../gate.ts';
import type { Words } from '../language/en.ts';
import { wordsOf } from '../language/language.ts';
import { ENGLISH } from '../languages.ts';
import { LIMIT_NAMES } from '../limits.ts';
import type { Outcome } from '../usage.ts';

/** What became of a request, in words, for pages and the command line. */

/** The results that lists filter by. */
export const RESULTS = ['success', 'refused', 'failed', 'left'] as const;
export type Result = (typeof RESULTS)[number];
/** Those of operators besides by what the upstream failed, whatever the client was told: companies do not see it. */
export const OPERATOR_RESULTS = [...RESULTS, 'upstream_failed'] as const;
export type ResultFilter = (typeof OPERATOR_RESULTS)[number];

/** The facts about a request that is over. */
export interface RequestFacts {
  /** The status sent; 0: the client left before an answer. null: only the ledger knows the call. */
  readonly status: number | null;
  readonly code: string | null;
  /** The member of the request that the error names, or the setting that refused it. */
  readonly param: string | null;
  readonly endpoint: string;
  readonly model_slug: string | null;
  readonly asked: string | null;
  readonly api_key_id: string | null;
  readonly outcome: Outcome | null;
  /** The cost that was booked; null: none. */
  readonly cost_eur: string | null;
  /** What the upstream answered with, or told inside a 200: of one request, and only where an operator reads it. */
  readonly upstream_status?: number | null;
}

interface Explanation {
  readonly result: Result;
  /** What happened: whole sentences. */
  readonly what: string;
  /** Advice; null: nothing is to be done. */
  readonly advice: string | null;
  /** The place of the setting that the advice is about. */
  readonly about: 'key' | 'models' | 'settings' | null;
}

type Text = readonly [
  what: string,
  advice: string | null,
  about?: Explanation['about'],
  settings?: string,
];

/** Requests that got the same error. */
export interface ReasonCount {
  /** Code of the error, or its name where it has no code. */
  readonly code: string;
  readonly requests: number;
}

/** A reason as people read it, and its status; null for a code that only other versions of this program know. */
export function reasonOfCode(
  code: string,
  reasons: Words['reasons'] = wordsOf(ENGLISH).reasons,
): { readonly text: string; readonly status: number | null } {
  const text = Object.hasOwn(reasons, code)
    ? reasons[code as keyof typeof reasons]
    : code.replaceAll('_', ' ');
  return { text, status: statusOfError(code) };
}

/** Whether the status of an error refuses: the others are failures. */
export function isRefusal(code: string): boolean {
  const status = statusOfError(code);
  return status !== null && status < 500;
}

/**
 * @param words of the reader's language
 * @param isOperator the advice names the settings of the service too
 */
export function explainRequest(
  request: RequestFacts,
  words: Words['explanations'] = wordsOf(ENGLISH).explanations,
  isOperator = false,
): Explanation {
  const [what, told, about = null, settings] = textOf(request, words);
  const advice = isOperator && settings !== undefined ? `${told} See ${settings}.` : told;
  return { result: resultOf(request), what, advice, about };
}

function resultOf({ status, code, outcome }: RequestFacts): Result {
  if (status === null) return outcome === 'upstream_failed' ? 'failed' : 'success';
  if (status === 0) return 'left';
  if (status >= 500 || (status === 200 && code !== null)) return 'failed';
  return status >= 400 ? 'refused' : 'success';
}

function textOf(request: RequestFacts, words: Words['explanations']): Text {
  const { status, code, outcome, cost_eur, upstream_status } = request;
  // a stream that failed is booked only if there was text, and a usage was told or a limit of the gateway ended it
  const isCharged = cost_eur !== null;
  if (status === 0) return outcome === null ? words.leftEarly : words.left;
  if (status === 200 && code !== null) {
    if (outcome === 'client_aborted' && code === 'upstream_timeout')
      return [...words.readSlowly, null, 'TOTAL_SECONDS'];
    if (code === 'upstream_timeout')
      return [...words.stalled(isCharged), null, 'IDLE_SECONDS and TOTAL_SECONDS'];
    if (code === 'service_unavailable' && typeof upstream_status !== 'number')
      return upstream_status === null
        ? [...words.stopped, null, 'DRAIN_SECONDS']
        : words.stoppedOrBusy;
    const isBroken = code === 'upstream_error' || code === 'internal_error';
    return isBroken ? words.broken(isCharged) : failedInside(words, code, isCharged);
  }
  if (status === null || status === 200) {
    if (outcome === 'client_aborted') return words.leftStream;
    return outcome === 'upstream_failed' ? words.broken(isCharged) : words.answered;
  }
  const explain = Object.hasOwn(TEXTS, code ?? '') ? TEXTS[code as ErrorName] : invalid;
  return explain(request, words);
}

/** The upstream told an error inside its stream. */
function failedInside(words: Words['explanations'], code: string, isCharged: boolean): Text {
  const { inside } = words;
  const [why, advice] = Object.hasOwn(inside, code)
    ? inside[code as keyof typeof inside]
    : inside.refused;
  return [words.failedInside({ why, isCharged }), advice];
}

/** The setting that refuses, which the trail has in `param`. Rows of earlier versions do not have it. */
function settingOf(param: string | null) {
  const [whose = '', column = ''] = (param ?? '').split('.');
  return {
    whose: whose === 'company' || whose === 'key' ? (whose as 'company' | 'key') : null,
    column,
    about: whose === 'key' ? ('key' as const) : ('settings' as const),
  };
}

type Explain = (request: RequestFacts, words: Words['explanations']) => Text;

/** Mistakes in the gateway's own settings. */
const BY_UPSTREAM_STATUS: Readonly<Record<number, Explain>> = {
  401: (_, words) => words.upstreamKey,
  402: (_, words) => words.upstreamAccount,
  403: (_, words) => words.upstreamKey,
  // the only reasons why a call whose upstream answered 400 or 422 becomes `upstream_error`
  400: (_, words) => words.notThereOrAccount,
  404: (_, words) => words.notThere,
  422: (_, words) => words.notThereOrAccount,
};

/** By the name of the error, which is its code unless that is null. */
const TEXTS: Readonly<Record<ErrorName, Explain>> = {
  invalid_request: invalid,
  invalid_json: invalid,
  missing_required_parameter: invalid,
  invalid_type: invalid,
  unsupported_parameter: invalid,
  invalid_api_key({ api_key_id, param }, words) {
    if (api_key_id === null) return words.keyUnknown;
    if (param === 'key.revoked_at') return [...words.keyRevoked, 'key'];
    const { column } = settingOf(param);
    return [
      ...words.keyRefused(column === 'allowed_cidrs' || column === 'expires_at' ? column : null),
      'key',
    ];
  },
  insufficient_quota({ param }, words) {
    if (param === ALLOWANCE) return [...words.endUserBudget, 'key'];
    if (param === 'company.budget_mode') return [...words.noRoom, 'settings'];
    const { whose, column, about } = settingOf(param);
    return [...words.budget(whose, column.startsWith('daily')), about];
  },
  account_paused: (_, words) => [...words.companyPaused, 'settings'],
  key_paused: (_, words) => [...words.keyPaused, 'key'],
  insufficient_scope: (_, words) => [...words.scope, 'key'],
  non_eu_model_blocked: ({ asked, model_slug }, words) => [
    ...words.euGate(asked ?? model_slug),
    'settings',
  ],
  not_found({ asked, param, endpoint }, words) {
    if (param === `company.${DISABLED_MODELS}`) return [...words.modelDisabled(asked), 'models'];
    if (param === `key.${ALLOWED_MODELS}`) return [...words.modelNotAllowed(asked), 'key'];
    if (asked !== null || param === 'model' || param === 'model_slug')
      return [...words.noModel(asked), 'models'];
    return endpoint === 'assistants.run' ? words.noAssistant : words.noAddress;
  },
  rate_limit_exceeded({ outcome, param }, words) {
    if (outcome === 'upstream_failed') return words.upstreamLimit;
    const { whose, column, about } = settingOf(param);
    return [
      ...words.limit({ whose, what: LIMIT_NAMES.find((name) => name === column) ?? null }),
      about,
    ];
  },
  request_too_large: (_, words) => [...words.tooLarge, null, 'MAX_BODY_BYTES'],
  context_length_exceeded: (_, words) => words.contextLength,
  model_required: (_, words) => words.modelRequired,
  unsupported_media_type: (_, words) => words.mediaType,
  method_not_allowed: (_, words) => words.method,
  upgrade_required: (_, words) => words.webSocket,
  request_header_fields_too_large: (_, words) => [
    ...words.headers,
    null,
    'MAX_HEADERS and MAX_HEADER_BYTES',
  ],
  request_timeout: (_, words) => words.tooSlow,
  internal_error: (_, words) => words.internal,
  upstream_error(request, words) {
    // the only reason why a call without an answer is booked
    if (request.cost_eur !== null) return [...words.answerTooLarge, null, 'MAX_ANSWER_BYTES'];
    const explain = BY_UPSTREAM_STATUS[request.upstream_status ?? 0];
    return explain === undefined ? words.upstreamFailed : explain(request, words);
  },
  upstream_timeout: (_, words) => [...words.upstreamSlow, null, 'FIRST_BYTE_SECONDS'],
  service_unavailable({ endpoint, outcome, upstream_status }, words) {
    if (endpoint === 'shed') return words.shed;
    if (outcome !== 'upstream_failed') return [...words.gatewayAway, null, 'ulimit -n'];
    return typeof upstream_status === 'number'
      ? words.upstreamBusy
      : [...words.upstreamAway, null, 'UPSTREAM_URL'];
  },
};

/** Explains an invalid request, and one with an error that only other versions of this program know. */
function invalid({ param, outcome }: RequestFacts, words: Words['explanations']): Text {
  return outcome === 'upstream_failed' ? words.modelRefused : words.refused(param);
}
