import { readUuid } from '../../domain/field.ts';
import type { ChargedPart } from '../../domain/pricing/prices.ts';
import { conditionsOf } from '../../domain/pricing/rates.ts';
import { explainRequest } from '../../domain/reports/request-explanation.ts';
import { findRequest, type RequestDetail } from '../../store/usage/request.ts';
import { command, Failure } from '../frame/command.ts';
import { type Cell, card, tokenDetails } from '../frame/text.ts';

export const requestCommand = command({
  name: 'request',
  summary: 'tell what became of a request',
  operand: { shown: 'ID', meaning: 'the x-request-id of its answer', read: readUuid },
  options: {},
  notes:
    'Requests are kept for REQUEST_TRAIL_DAYS, never with prompts or answers; calls that were booked are in the ledger for good. A request is there about a second after it ended. What the upstream said is its own words, without keys and prompts. EUR amounts are exact. In JSON they are strings, so that no parser rounds them.',
  async run({ read, config }, _values, id: string) {
    const request = await read((sql) => findRequest(sql, id, null));
    if (request === null)
      throw new Failure(
        `nothing is known of request ${id}; ${retentionText(config.requestTrailDays)}`,
      );
    const { result, what, advice } = explainRequest(request, undefined, true);
    const sentence = advice === null ? what : `${what}\nWhat to do: ${advice}`;
    return { json: { ...request, result, what, advice }, text: card(sentence, membersOf(request)) };
  },
});

function retentionText(days: number): string {
  return days === 0
    ? 'requests are not kept (REQUEST_TRAIL_DAYS is 0)'
    : `requests are kept for ${days} days`;
}

/** "priority over 272000: served as priority, 272113 tokens, more than 272000". */
function rateText(rate: string, tokens: number | null): string {
  const { tier, hours, over } = conditionsOf(rate);
  const why = [
    ...(tier === undefined ? [] : [`served as ${tier}`]),
    ...(hours === undefined ? [] : [`begun within ${hours}`]),
    ...(over === undefined ? [] : [`${tokens} tokens, more than ${over}`]),
  ];
  return `${rate}: ${why.join(', ')}`;
}

const chargedText = ({ part, units, price }: ChargedPart) =>
  `${units} ${part.replaceAll('_', ' ')} at ${price} per 1000`;

function membersOf(request: RequestDetail): Record<string, Cell> {
  const { company_id, company_name, api_key_id, key_name, key_prefix, asked, upstream_status } =
    request;
  const members = {
    time: request.occurred_at.toISOString(),
    status: request.status === 0 ? 'none: the client left' : request.status,
    code: request.code,
    parameter: request.param,
    company: company_id && `${company_name ?? 'a removed company'} (${company_id})`,
    key:
      api_key_id &&
      `${key_name === null ? 'a deleted key' : `${key_name}, ${key_prefix}…`} (${api_key_id})`,
    endpoint: request.endpoint,
    model: request.model_slug ?? asked,
    outcome: request.outcome,
    'prompt tokens': request.prompt_tokens,
    'completion tokens': request.completion_tokens,
    ...tokenDetails(request),
    rate: request.rate && rateText(request.rate, request.prompt_tokens),
    charged: request.charged?.map(chargedText).join('; ') ?? null,
    EUR: request.cost_eur,
    "upstream's cost":
      request.upstream_cost && `${request.upstream_cost} ${request.upstream_currency}`,
    'ms duration': request.duration_ms,
    'ms to first event': request.first_event_ms,
    'µs added by the gateway': request.added_us,
    'upstream status': upstream_status,
    'upstream said': request.upstream_reason,
    source: request.in_trail ? null : 'the ledger alone: older than what is kept, or not kept',
  };
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}
