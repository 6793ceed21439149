import t from 'tap';
import { adjustedColor, brandStyle, shadesOf } from '../../../src/admin/process/brand.ts';
import { readConfig } from '../../../src/config.ts';
import { colourOf, contrast } from '../../../src/config-brand.ts';

/** WCAG 2.2, 1.4.3, for texts of any size. */
const AA = 4.5;
const LIGHT = ['#f6f7f6', '#ffffff', '#eef1ef'];
const DARK = ['#101513', '#181f1c', '#202825'];
/** The corners of the cube of colours, and some between them. */
const COLOURS = [
  '#000000',
  '#ffffff',
  '#ff0000',
  '#00ff00',
  '#0000ff',
  '#ffff00',
  '#00ffff',
  '#ff00ff',
  '#808080',
];

t.test('whatever the colour, texts and buttons in it are read in light and dark', async (t) => {
  for (const color of [
    ...COLOURS,
    '#ffd400',
    '#0a6b58',
    '#e2001a',
    '#7b2ff7',
    '#f6f7f6',
    '#101513',
  ]) {
    const { light, dark } = shadesOf(color);
    for (const [scheme, { accent, ink, soft }, surfaces] of [
      ['light', light, LIGHT],
      ['dark', dark, DARK],
    ] as const) {
      for (const surface of [...surfaces, soft, ink]) {
        const ratio = contrast(colourOf(accent), colourOf(surface));
        t.ok(ratio >= AA, `${color} in ${scheme}: ${accent} on ${surface} has ${ratio.toFixed(2)}`);
      }
    }
  }
});

t.test('a colour that is read stays as it is, and another one is told', async (t) => {
  t.equal(shadesOf('#0a6b58').light.accent, '#0a6b58', 'dark enough for light pages');
  t.equal(shadesOf('#ffd400').dark.accent, '#ffd400', 'light enough for dark pages');
  const of = (color: string) => adjustedColor(readConfig({ BRAND_COLOR: color }));
  t.match(
    of('#ffd400'),
    /^BRAND_COLOR #ffd400 is shown as #[\da-f]{6} on light pages and as #ffd400 on dark ones/,
  );
  t.equal(adjustedColor(readConfig({})), null);
  t.match(brandStyle('#ffd400'), /--accent: light-dark\(#[\da-f]{6}, #ffd400\);/);
});
