import { html, raw } from 'hono/html';

export { html, raw };

/** Markup made by the `html` template, which escapes every interpolated value. */
export type Html = ReturnType<typeof html>;
