import type { html } from 'hono/html';

/** Markup made by the `html` template, which escapes every interpolated value. */
export type Html = ReturnType<typeof html>;
