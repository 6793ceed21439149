import type { Route } from '../page/context.ts';
import { requestPage } from '../usage/request.ts';
import { requestsPage } from '../usage/requests.ts';
import { keepView, usagePage } from '../usage/usage.ts';
import { downloadLedger, downloadSums } from '../usage/usage-export.ts';

const OWN = '/companies/:company/own';
const action = 'own-usage.read';

/** What a member's own keys used, that of the playground too, and what became of their requests. */
export const ownUsageRoutes: readonly Route[] = [
  { method: 'GET', path: `${OWN}/usage`, action, handle: usagePage },
  { method: 'POST', path: `${OWN}/usage`, action: 'own-usage.keep', handle: keepView, page: usagePage },
  { method: 'GET', path: `${OWN}/usage.csv`, action, handle: downloadSums },
  { method: 'GET', path: `${OWN}/ledger.csv`, action, handle: downloadLedger },
  { method: 'GET', path: `${OWN}/requests`, action, handle: requestsPage },
  { method: 'GET', path: `${OWN}/requests/:request`, action, handle: requestPage },
];
