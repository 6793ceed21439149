import type { html } from 'hono/html';

/** Markup: what the `html` template makes. Everything interpolated into it is escaped. */
export type Html = ReturnType<typeof html>;
