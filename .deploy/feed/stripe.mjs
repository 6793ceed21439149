import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import Stripe from 'stripe';
import { eachPage, keep } from './feed.mjs';

const { STRIPE_KEY, STRIPE_URL = 'https://api.stripe.com' } = process.env;
const { protocol, hostname, port } = new URL(STRIPE_URL);
const stripe = new Stripe(STRIPE_KEY, {
  protocol: protocol.slice(0, -1),
  host: hostname,
  ...(port && { port }),
});
const customers = JSON.parse(readFileSync('customers.json', 'utf8'));
const done = existsSync('done.json') ? JSON.parse(readFileSync('done.json', 'utf8')) : {};

/** Why a call is refused; null: Stripe has it. Throws what may pass, such as an outage. */
async function refusalOf({
  request_id,
  company_id,
  occurred_at,
  prompt_tokens,
  completion_tokens,
}) {
  const customer = customers[company_id];
  if (customer === undefined) return 'customers.json has no such company';
  try {
    await stripe.billing.meterEvents.create({
      event_name: 'model_tokens',
      identifier: request_id,
      timestamp: Math.floor(Date.parse(occurred_at) / 1000),
      payload: { stripe_customer_id: customer, value: String(prompt_tokens + completion_tokens) },
    });
    return null;
  } catch (error) {
    if (error.type !== 'StripeInvalidRequestError') throw error;
    return /already exists with identifier/.test(error.message) ? null : error.message;
  }
}

async function send(call) {
  const refusal = await refusalOf(call);
  if (refusal === null) return;
  appendFileSync('refused.ndjson', `${JSON.stringify({ ...call, refusal })}\n`);
  console.error(`${call.request_id}: ${refusal}`);
}

/** New calls of one company, in their order. */
async function sendAll(calls) {
  const first = calls.findIndex(({ company_id, cursor }) => cursor === done[company_id]) + 1;
  for (const call of calls.slice(first)) {
    await send(call);
    done[call.company_id] = call.cursor;
    keep('done.json', JSON.stringify(done));
  }
}

const [file] = process.argv.slice(2);
if (file !== undefined) {
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  for (const line of lines) await send(JSON.parse(line));
} else {
  await eachPage(async (calls) => {
    const companies = Map.groupBy(calls, ({ company_id }) => company_id).values();
    const failed = (await Promise.allSettled(companies.map(sendAll))).find(({ reason }) => reason);
    if (failed !== undefined) throw failed.reason;
  });
}
