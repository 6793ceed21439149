import t from 'tap';
import { ERROR_NAMES, GatewayError, isUpstreamsFailure } from '../../../src/domain/errors.ts';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { LANGUAGES } from '../../../src/domain/languages.ts';
import {
  explainRequest,
  isRefusal,
  type RequestFacts,
  reasonOfCode,
} from '../../../src/domain/reports/request-explanation.ts';

const ANSWERED: RequestFacts = {
  status: 200,
  code: null,
  param: null,
  endpoint: 'chat.completions',
  model_slug: 'fast',
  asked: null,
  api_key_id: 'key',
  outcome: 'completed',
  cost_eur: '0.0042',
};
const fate = (change: Partial<RequestFacts>) => explainRequest({ ...ANSWERED, ...change });
const refused = (status: number, code: string, change: Partial<RequestFacts> = {}) =>
  fate({ status, code, outcome: null, cost_eur: null, ...change });

t.test('every result', async (t) => {
  t.match(fate({}), { result: 'success', advice: null });
  t.match(fate({ outcome: 'client_aborted' }), {
    result: 'success',
    what: /left before the stream ended/,
  });
  t.match(fate({ code: 'upstream_error', outcome: 'upstream_failed' }), {
    result: 'failed',
    what: /broke it off/,
  });
  t.match(fate({ code: 'upstream_timeout', outcome: 'upstream_failed' }), {
    result: 'failed',
    what: /sent nothing for too long/,
  });
  t.match(fate({ code: 'upstream_timeout', outcome: 'client_aborted' }), {
    result: 'failed',
    what: /read the stream so slowly/,
  });
  t.match(fate({ status: 0, outcome: null }), { result: 'left', what: /nothing was charged/ });
  t.match(fate({ status: 0, outcome: 'client_aborted' }), {
    result: 'left',
    what: /charged all the same/,
  });
  t.match(
    fate({ status: null }),
    { result: 'success', what: /answered/ },
    'known from the ledger alone',
  );
  t.match(fate({ status: null, outcome: 'upstream_failed' }), { result: 'failed' });
});

t.test(
  'an error that the upstream told: inside a stream, and by a status, whose mistake it was',
  async (t) => {
    const inside = (code: string, cost_eur: string | null = null) =>
      fate({ code, outcome: 'upstream_failed', cost_eur, upstream_status: 200 });
    t.match(inside('context_length_exceeded'), {
      result: 'failed',
      what: /longer than the model takes.*Nothing was charged/,
    });
    t.match(inside('rate_limit_exceeded', '0.1'), {
      what: /Its own rate limit.*What it had got is charged/,
    });
    t.match(inside('service_unavailable'), { what: /too much to do/, advice: /more capacity/ });
    t.match(inside('invalid_request'), {
      what: /The model refused the request/,
      advice: 'Mend the request.',
    });
    const by = (status: number, code: string, upstream_status: number) =>
      refused(status, code, { outcome: 'upstream_failed', upstream_status });
    t.match(by(400, 'invalid_request', 500), {
      result: 'refused',
      what: /model refused/,
      advice: /Mend the request/,
    });
    t.match(by(400, 'context_length_exceeded', 500), {
      result: 'refused',
      what: /longer than the model takes/,
    });
    t.match(by(503, 'service_unavailable', 503), {
      what: /loading the model/,
      advice: /keep its models loaded/,
    });
    t.match(by(502, 'upstream_error', 402), { what: /account/, advice: /look after/ });
  },
);

t.test('a stream that failed is told as charged only where it was booked', async (t) => {
  for (const code of ['upstream_error', 'upstream_timeout']) {
    const failed = (cost_eur: string | null) =>
      fate({ code, outcome: 'upstream_failed', cost_eur });
    t.match(failed('0.0042'), { what: /What it had got is charged\.$/ });
    t.match(failed(null), { what: /Nothing was charged\.$/ });
  }
  t.match(fate({ code: 'service_unavailable' }), {
    what: /the gateway stopped, or the model had too much to do/,
  });
  t.match(fate({ code: 'service_unavailable', upstream_status: null }), {
    what: /the gateway stopped.*Nothing was charged\.$/,
    result: 'failed',
  });
});

t.test('what to do, and where', async (t) => {
  t.match(refused(401, 'invalid_api_key', { api_key_id: null }), {
    what: /unknown or of a closed company/,
    about: null,
  });
  t.match(refused(401, 'invalid_api_key'), { what: /expired/, about: 'key' });
  t.match(refused(402, 'insufficient_quota'), { advice: /Raise the budget/, about: 'settings' });
  t.match(refused(403, 'non_eu_model_blocked'), {
    what: /“fast” is hosted outside the EU/,
    about: 'settings',
  });
  t.match(refused(403, 'insufficient_scope'), { about: 'key' });
  t.match(refused(403, 'key_paused'), { what: /key is paused/, about: 'key' });
  t.match(refused(403, 'account_paused'), { what: /company is paused/, about: 'settings' });
  const unknown = { model_slug: null, param: 'model' };
  t.match(refused(404, 'not_found', { ...unknown, asked: 'gpt' }), {
    what: /no model “gpt”/,
    about: 'models',
  });
  t.match(refused(404, 'not_found', { endpoint: 'unknown', model_slug: null }), {
    what: /nothing at the address/,
  });
  t.match(refused(404, 'not_found', { endpoint: 'assistants.run' }), { what: /no such assistant/ });
  t.match(refused(429, 'rate_limit_exceeded'), { what: /limit of requests/, about: 'settings' });
  t.match(refused(429, 'rate_limit_exceeded', { outcome: 'upstream_failed' }), {
    what: /upstream/,
    about: null,
  });
  t.match(refused(400, 'unsupported_parameter', { param: 'seed' }), { what: /parameter “seed”/ });
  t.match(refused(502, 'upstream_error', { cost_eur: '0.1' }), {
    what: /charged/,
    advice: /operator may allow more/,
  });
  t.match(refused(503, 'service_unavailable', { endpoint: 'shed' }), {
    result: 'failed',
    advice: /add gateways/,
  });
  t.match(refused(503, 'service_unavailable', { outcome: 'upstream_failed' }), {
    what: /could not be reached/,
    advice: /whether the upstream runs/,
  });
});

t.test('operators alone read the names of the settings that would help', async (t) => {
  const cases: [RequestFacts, RegExp][] = [
    [{ ...ANSWERED, code: 'upstream_timeout' }, /See IDLE_SECONDS and TOTAL_SECONDS\.$/],
    [{ ...ANSWERED, code: 'upstream_timeout', outcome: 'client_aborted' }, /See TOTAL_SECONDS\.$/],
    [{ ...ANSWERED, code: 'service_unavailable', upstream_status: null }, /See DRAIN_SECONDS\.$/],
    [
      { ...ANSWERED, status: 413, code: 'request_too_large', cost_eur: null },
      /See MAX_BODY_BYTES\.$/,
    ],
    [{ ...ANSWERED, status: 502, code: 'upstream_error' }, /See MAX_ANSWER_BYTES\.$/],
  ];
  for (const [facts, settings] of cases) {
    t.match(explainRequest(facts, undefined, true).advice, settings);
    for (const language of LANGUAGES)
      t.notMatch(explainRequest(facts, wordsOf(language).explanations).advice, /[A-Z]{3,}_/);
  }
});

t.test(
  'a mistake in the settings of the gateway is told to operators alone, and not as one that passes',
  async (t) => {
    const failed = (upstream_status: number | null) =>
      refused(502, 'upstream_error', { outcome: 'upstream_failed', upstream_status });
    for (const status of [401, 403])
      t.match(failed(status), { what: /own key/, advice: /UPSTREAM_API_KEY/ });
    // 400 and 422 are told as 502 only where the upstream does not know the model, or speaks of the account
    for (const status of [400, 422])
      t.match(failed(status), { what: /refused the account/, advice: /look after/ });
    for (const status of [400, 404, 422]) {
      t.match(failed(status), {
        what: /does not know/,
        advice: /tollgate model list.*UPSTREAM_URL.*\/v1/,
      });
    }
    for (const status of [500, null])
      t.match(failed(status), { advice: /^Let the client try again/ });
    const unknown = refused(502, 'upstream_error'); // as people of a company read it: without the upstream's status
    t.notMatch(`${unknown.what} ${unknown.advice}`, /UPSTREAM_|key|tollgate/);
  },
);

t.test('a refusal names the setting behind it', async (t) => {
  const by = (status: number, code: string, param: string) => refused(status, code, { param });
  const ofKey = by(402, 'insufficient_quota', 'key.monthly_budget_eur');
  t.match(ofKey, { what: /^The monthly budget of this key was reached/, about: 'key' });
  const ofCompany = by(402, 'insufficient_quota', 'company.monthly_budget_eur');
  t.match(ofCompany, { what: /^The monthly budget of the company was reached/, about: 'settings' });
  t.match(by(402, 'insufficient_quota', 'company.budget_mode'), {
    what: /strict/,
    advice: /max_tokens/,
  });
  t.match(by(429, 'rate_limit_exceeded', 'company.requests_per_minute'), {
    what: 'A limit of requests a minute of the company was reached.',
    about: 'settings',
  });
  t.match(by(429, 'rate_limit_exceeded', 'key.max_concurrent'), {
    what: /calls at once of this key/,
    about: 'key',
  });
  t.match(by(401, 'invalid_api_key', 'key.allowed_cidrs'), { what: /networks/, about: 'key' });
  t.match(by(401, 'invalid_api_key', 'key.expires_at'), {
    what: 'The key had expired.',
    about: 'key',
  });
  const revoked = by(401, 'invalid_api_key', 'key.revoked_at');
  t.match(revoked, { what: 'The key was revoked, and somebody still uses it.', about: 'key' });
  const hidden = { model_slug: null, asked: 'gpt' };
  const disabled = refused(404, 'not_found', { ...hidden, param: 'company.disabled_model_slugs' });
  t.match(disabled, { what: /“gpt” is disabled/, about: 'models' });
  const narrow = refused(404, 'not_found', { ...hidden, param: 'key.allowed_model_slugs' });
  t.match(narrow, { what: /not allowed the model “gpt”/, about: 'key' });
});

t.test('every error of the API has a short reason, and its status', async (t) => {
  for (const name of ERROR_NAMES) {
    const { text, status } = reasonOfCode(name);
    t.match(text, /^[A-Z][^_.]+$/, name);
    t.equal(status, new GatewayError(name).status, name);
    t.equal(isRefusal(name), new GatewayError(name).status < 500, name);
  }
  t.same(reasonOfCode('of_another_version'), { text: 'of another version', status: null });
  t.equal(isRefusal('of_another_version'), false);
});

t.test(
  'what the caller did wrong is no failure of the upstream, whatever status the upstream had for it',
  async (t) => {
    for (const upstream of [400, 413, 422, 500]) {
      for (const told of [400, 404, 413])
        t.notOk(isUpstreamsFailure(told, upstream), `${upstream}, told as ${told}`);
    }
    for (const told of [200, 429, 500, 502, 503, 504])
      t.ok(isUpstreamsFailure(told, 400), `told as ${told}`);
    t.ok(isUpstreamsFailure(0, null), 'who left could be told nothing');
    t.ok(isUpstreamsFailure(0, 500));
    t.notOk(isUpstreamsFailure(0, 400));
  },
);

t.test('every error of the API is told in whole sentences', async (t) => {
  for (const name of ERROR_NAMES) {
    const { status, code } = new GatewayError(name);
    const { what, advice, result } = refused(status, code ?? name);
    t.match(what, /^[A-Z].*\.$/, name);
    t.match(advice, /^[A-Z].*\.$/, name);
    t.equal(result, status >= 500 ? 'failed' : 'refused', name);
  }
});
