import { readFileSync } from 'node:fs';
import type { Config } from '../../config.ts';
import { type Colour, colourOf, contrast, WHITE } from '../../config-brand.ts';
import type { MailBrand } from '../../domain/language/mail.ts';

/** What the pages show of the operator's brand: plain JSON, as the pages' process gets it. */
export interface BrandSettings extends MailBrand {
  /** null: the gate. The body is in base64. */
  readonly logo: { readonly type: string; readonly body: string } | null;
  /** Lines with name, address and VAT id, for statements; null: not told. */
  readonly seller: readonly string[] | null;
  /** A style sheet with the colours of controls; null: those of Tollgate. */
  readonly style: string | null;
}

/** WCAG 2.2, level AA, for texts of any size. */
const LEAST_CONTRAST = 4.5;
const BLACK: Colour = [0, 0, 0];
/** The share of the colour in the surface of a chosen item. */
const SOFT = { light: 0.1, dark: 0.04 };
const STEPS = 256;

/** The settings of the pages. */
export function brandSettings({ brand }: Config): BrandSettings {
  const { name, logo, color, support, imprint, privacy, seller } = brand;
  const body = logo && { type: logo.type, body: logo.body.toString('base64') };
  return {
    name,
    color,
    logo: body,
    style: color === null ? null : brandStyle(color),
    support,
    imprint,
    privacy,
    seller,
  };
}

/** A sentence for the log about a BRAND_COLOR that was changed for contrast; null: it is shown unchanged. */
export function adjustedColor({ brand: { color } }: Config): string | null {
  if (color === null) return null;
  const { light, dark } = shadesOf(color);
  if (light.accent === color && dark.accent === color) return null;
  return `BRAND_COLOR ${color} is shown as ${light.accent} on light pages and as ${dark.accent} on dark ones, so that texts have a contrast of ${LEAST_CONTRAST} to 1`;
}

/** The rules that take the place of those of style.css. */
export function brandStyle(color: string): string {
  const { light, dark } = shadesOf(color);
  return `:root {
  --accent: light-dark(${light.accent}, ${dark.accent});
  --accent-ink: light-dark(${light.ink}, ${dark.ink});
  --accent-soft: light-dark(${light.soft}, ${dark.soft});
}
@media print {
  :root {
    --accent: #000;
  }
}
`;
}

/**
 * The colour as texts and buttons have it in both schemes: mixed with as little black on light pages, and with as
 * little white on dark ones, as gives enough contrast to every surface that texts stand on. The hue stays.
 */
export function shadesOf(color: string) {
  const surfaces = surfacesOf();
  const own = colourOf(color);
  const shade = (scheme: 'light' | 'dark') => {
    const [end, ink] =
      scheme === 'light'
        ? ([BLACK, WHITE] as const)
        : ([WHITE, surfaces.dark[0] as Colour] as const);
    const soft = colourOf(textOf(mixed(surfaces[scheme][1] as Colour, own, SOFT[scheme])));
    const all = [...surfaces[scheme], soft];
    for (let step = 0; step <= STEPS; step++) {
      const accent = colourOf(textOf(mixed(own, end, step / STEPS))); // as it is written, in whole steps of colours
      const isRead = [...all, ink].every((each) => contrast(accent, each) >= LEAST_CONTRAST);
      if (isRead) return { accent: textOf(accent), ink: textOf(ink), soft: textOf(soft) };
    }
    throw new Error('no shade has enough contrast'); // black on light surfaces has, and white on dark ones
  };
  return { light: shade('light'), dark: shade('dark') };
}

/** The surfaces of both schemes, from the style sheet: the page, cards and sunk parts. */
function surfacesOf(): { readonly light: readonly Colour[]; readonly dark: readonly Colour[] } {
  const style = readFileSync(
    new URL('../../../src/admin/assets/style.css', import.meta.url),
    'utf8',
  );
  const pairs = ['page', 'card', 'sunk'].map((name) => {
    const [, light = '', dark = ''] =
      new RegExp(`--${name}: light-dark\\((#\\w+), (#\\w+)\\)`).exec(style) ?? [];
    return [colourOf(light), colourOf(dark)] as const;
  });
  return { light: pairs.map(([light]) => light), dark: pairs.map(([, dark]) => dark) };
}

function mixed(from: Colour, to: Colour, share: number): Colour {
  return from.map((each, at) => each + ((to[at] as number) - each) * share) as unknown as Colour;
}

function textOf(colour: Colour): string {
  const parts = colour.map((each) => {
    const value = each <= 0.0031308 ? each * 12.92 : 1.055 * each ** (1 / 2.4) - 0.055;
    return Math.round(value * 255)
      .toString(16)
      .padStart(2, '0');
  });
  return `#${parts.join('')}`;
}
