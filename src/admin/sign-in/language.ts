import { Hono } from 'hono';
import { asLanguage } from '../../domain/language/language.ts';
import { setUserLanguage } from '../../store/people/user.ts';
import type { PageEnv } from '../page/context.ts';
import { readForm } from '../page/form.ts';
import { rememberLanguage } from '../page/language.ts';
import { localAddress } from './local-address.ts';

const MAX_FORM_BYTES = 8192;
const WRITE_MS = 2000;

/** The choice below each page, with and without a session. It leads back to the page. */
export function languageRoute(): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.post('/language', async (c) => {
    const { services } = c.var;
    const { values } = readForm(c, MAX_FORM_BYTES);
    const language = asLanguage(values.get('language'));
    if (language !== null) {
      rememberLanguage(c, language, services.isSecure);
      const session = await services.sessions.find(c);
      if (session !== null) {
        await services.db.run(WRITE_MS, (sql) => setUserLanguage(sql, session.user.user_id, language));
      }
    }
    return c.redirect(localAddress(values.get('back')), 303);
  });
  return app;
}
