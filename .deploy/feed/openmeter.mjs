import { OpenMeter } from '@openmeter/sdk';
import { eachPage } from './feed.mjs';

const { OPENMETER_KEY, OPENMETER_URL = 'https://openmeter.cloud' } = process.env;
const openmeter = new OpenMeter({ baseUrl: OPENMETER_URL, apiKey: OPENMETER_KEY });

const eventOf = ({
  request_id,
  company_id,
  occurred_at,
  model_slug,
  cost_eur,
  prompt_tokens,
  completion_tokens,
}) => ({
  id: request_id,
  source: 'tollgate',
  type: 'model_call',
  subject: company_id,
  time: new Date(occurred_at),
  data: { model: model_slug, cost_eur, prompt_tokens, completion_tokens },
});

await eachPage((calls) => openmeter.events.ingest(calls.map(eventOf)));
