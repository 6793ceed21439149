import { Client, getLagoError } from 'lago-javascript-client';
import { eachPage } from './feed.mjs';

const { LAGO_KEY, LAGO_URL = 'https://api.getlago.com' } = process.env;
const lago = Client(LAGO_KEY, { baseUrl: `${LAGO_URL}/api/v1` });

async function send({ request_id, company_id, occurred_at, model_slug, cost_eur, cost_center }) {
  const event = {
    transaction_id: request_id,
    external_subscription_id: company_id,
    code: 'model_calls',
    timestamp: String(Date.parse(occurred_at) / 1000),
    properties: { cost_eur, model: model_slug, cost_center },
  };
  try {
    await lago.events.createEvent({ event });
  } catch (error) {
    const { error_details: details } = await getLagoError(error);
    if (details?.transaction_id?.includes('value_already_exist') !== true)
      throw new Error(JSON.stringify(details ?? error));
  }
}

await eachPage((calls) => Promise.all(calls.map(send)));
