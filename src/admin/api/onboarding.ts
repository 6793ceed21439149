import { eachPrice, modelPrices, PRICES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { schemasOf } from '../../domain/settings/setting.ts';
import { withLink } from '../../operations/invitation.ts';
import { onboardCompany } from '../../operations/onboarding.ts';
import { COMPANY_ROW } from '../../store/company/company.ts';
import { type ApiOperation, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';
import { made } from './invitation.ts';

/** How a customer begins: a company with all it needs for its first call, in one transaction. */

const prices = modelPrices(schemasOf(PRICES));
const needed = modelPrices(eachPrice((_, { isNeeded }) => isNeeded));
const ownPrice = schema.object({ slug: schema.slug, ...prices }, [
  'slug',
  ...schema.namesOf(prices).filter((column) => needed[column]),
]);

export const onboardingOperations: readonly ApiOperation[] = [
  post('onboardCompany', '/companies/onboard', {
    summary:
      'Onboard a customer: a company with its limits, models and own prices, the invitation of its owner, and a first key, all of it or nothing. No e-mail is sent: the program passes link and key on.',
    action: 'company.create',
    body: schema.object(
      {
        ...resource.newCompany,
        own_prices: {
          ...schema.listOf(ownPrice),
          description: 'of shared models, for this company alone',
        },
        owner: schema.object({ email: schema.email }),
        key: resource.newKey,
      },
      ['name'],
    ),
    answer: schema.object({
      ...COMPANY_ROW.properties,
      invitation: schema.orNull(made),
      key: schema.orNull(resource.mintedKey),
    }),
    status: 201,
    secret: ['invitation.link', 'key.key'],
    async run(sql, call) {
      const done = await onboardCompany(sql, call, call.body);
      const { company, invitation, key } = done;
      return { ...company, invitation: invitation && withLink(call.origin, invitation), key };
    },
  }),
];
