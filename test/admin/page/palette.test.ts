import { readFileSync } from 'node:fs';
import t from 'tap';

/** The colours of charts, for every kind of colour vision, in both themes. */

type Triple = readonly [number, number, number];

/** What people see who lack one kind of cone: Machado, Oliveira and Fernandes 2009, for linear RGB, severity 1. */
const VISIONS: Readonly<Record<string, readonly Triple[]>> = {
  usual: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
  achromatopsia: [
    [0.2126, 0.7152, 0.0722],
    [0.2126, 0.7152, 0.0722],
    [0.2126, 0.7152, 0.0722],
  ],
};
/** Of OKLab, where 0.02 is just noticeable side by side. Five times that, and three times in grey. */
const APART = 0.1;
const APART_IN_GREY = 0.06;
/** WCAG 2.2, 1.4.11: graphics and what is beside them. */
const CONTRAST = 3;

const style = readFileSync(new URL('../../../src/admin/assets/style.css', import.meta.url), 'utf8');

/** A colour of the style sheet: of the light theme, and of the dark one. */
function colours(name: string): readonly [light: Triple, dark: Triple] {
  const [, light = '', dark = ''] =
    new RegExp(`--${name}: light-dark\\((#\\w+), (#\\w+)\\)`).exec(style) ?? [];
  return [linear(light), linear(dark)];
}

function linear(hex: string): Triple {
  const long = hex.length === 4 ? hex.replaceAll(/\w/g, '$&$&') : hex;
  t.match(long, /^#[\da-f]{6}$/, hex);
  const of = (at: number) => {
    const value = Number.parseInt(long.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [of(1), of(3), of(5)];
}

const times = (matrix: readonly Triple[], [r, g, b]: Triple) =>
  matrix.map(([x, y, z]) => x * r + y * g + z * b) as unknown as Triple;

function seen(vision: string, colour: Triple): Triple {
  const rgb = times(VISIONS[vision] as readonly Triple[], colour).map((each) =>
    Math.min(1, Math.max(0, each)),
  );
  return oklab(rgb as unknown as Triple);
}

/** Björn Ottosson 2020. */
function oklab(rgb: Triple): Triple {
  const cones = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    rgb,
  ).map(Math.cbrt);
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones as unknown as Triple,
  );
}

function contrast(one: Triple, other: Triple): number {
  const [dark = 0, light = 0] = [one, other]
    .map(([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b)
    .sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

const series = Array.from({ length: 5 }, (_, at) => colours(`s${at}`));

for (const [theme, name] of ['light', 'dark'].entries()) {
  const palette = series.map((each) => each[theme] as Triple);
  t.test(`colours of charts are apart, ${name}`, async (t) => {
    for (const vision of Object.keys(VISIONS)) {
      const views = palette.map((colour) => seen(vision, colour));
      for (const [at, one] of views.entries()) {
        for (const [before, other] of views.slice(0, at).entries()) {
          const distance = Math.hypot(...one.map((each, axis) => each - (other[axis] as number)));
          t.ok(
            distance >= (vision === 'achromatopsia' ? APART_IN_GREY : APART),
            `${vision}: s${before} and s${at}, ${distance}`,
          );
        }
      }
    }
  });

  t.test(
    `colours of charts stand out from the card and from the track of a budget, ${name}`,
    async (t) => {
      const card = colours('card')[theme] as Triple;
      const track = colours('sunk')[theme] as Triple;
      for (const [at, colour] of palette.entries())
        t.ok(contrast(colour, card) >= CONTRAST, `s${at} ${contrast(colour, card)}`);
      for (const at of [0, 1])
        t.ok(contrast(palette[at] as Triple, track) >= CONTRAST, `s${at} on the track`);
    },
  );
}
