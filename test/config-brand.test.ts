import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ConfigError, readConfig } from '../src/config.ts';

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><path d="M0 0h8v8H0z"/></svg>';

/** What is wrong with a variable; empty where it is right. */
function wrong(env: Record<string, string>): string {
  try {
    readConfig(env);
    return '';
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message;
  }
}

t.test('a deployment that sets nothing is called Tollgate and has no links', async (t) => {
  const links = { support: null, imprint: null, privacy: null, seller: null };
  t.same(readConfig({}).brand, { name: 'Tollgate', logo: null, color: null, ...links });
});

t.test(
  'clients read the name of the brand as the owner of every model, unless OWNED_BY has another',
  async (t) => {
    t.equal(readConfig({}).ownedBy, 'tollgate');
    t.equal(readConfig({ BRAND_NAME: 'Modellwerk Süd' }).ownedBy, 'modellwerk süd');
    t.equal(readConfig({ BRAND_NAME: 'Modellwerk Süd', OWNED_BY: 'MW' }).ownedBy, 'MW');
    t.match(wrong({ BRAND_NAME: 'a\nb' }), /^BRAND_NAME: /);
  },
);

t.test('names, colours and links', async (t) => {
  const { brand } = readConfig({
    BRAND_NAME: 'Modellwerk Süd',
    BRAND_COLOR: '#E2001A',
    BRAND_SUPPORT: 'hilfe@modellwerk.example',
    BRAND_IMPRINT: 'https://modellwerk.example/impressum',
    BRAND_PRIVACY: 'https://modellwerk.example/datenschutz?a=b',
    BRAND_SELLER: 'Modellwerk GmbH; Hafenstraße 1;20457 Hamburg;USt-IdNr. DE123456789',
  });
  t.same(brand, {
    name: 'Modellwerk Süd',
    logo: null,
    color: '#e2001a',
    support: 'mailto:hilfe@modellwerk.example',
    imprint: 'https://modellwerk.example/impressum',
    privacy: 'https://modellwerk.example/datenschutz?a=b',
    seller: ['Modellwerk GmbH', 'Hafenstraße 1', '20457 Hamburg', 'USt-IdNr. DE123456789'],
  });
  t.equal(
    readConfig({ BRAND_SUPPORT: 'https://hilfe.example/x' }).brand.support,
    'https://hilfe.example/x',
  );
  t.equal(readConfig({ BRAND_NAME: ' x\n' }).brand.name, 'x', 'without space around it');
  t.match(
    wrong({ BRAND_NAME: 'a\u200bb' }),
    /^BRAND_NAME: must be 1 to 40 characters that can be seen/,
  );
  t.match(wrong({ BRAND_SELLER: 'a;;b' }), /^BRAND_SELLER: must be 1 to 8 lines/);
  t.match(
    wrong({ BRAND_COLOR: 'red' }),
    'BRAND_COLOR: must be a colour such as #0a6b58, not "red"',
  );
  for (const name of ['BRAND_IMPRINT', 'BRAND_PRIVACY', 'BRAND_SUPPORT']) {
    t.match(wrong({ [name]: 'javascript:alert(1)' }), new RegExp(`^${name}: must be an`));
  }
  t.match(wrong({ BRAND_SUPPORT: 'a@b.example?subject=x' }), /^BRAND_SUPPORT: must be/);
});

t.test('a logo is a small SVG or PNG file, by what is in it, and does nothing', async (t) => {
  const dir = t.testdir();
  const logo = (content: string | Buffer, name = 'logo') => {
    const path = join(dir, name);
    writeFileSync(path, content);
    return path;
  };
  t.equal(readConfig({ BRAND_LOGO: logo(PNG) }).brand.logo?.type, 'image/png');
  for (const before of ['', '<?xml version="1.0"?>\n', '<!-- Modellwerk -->\n', '\ufeff']) {
    t.equal(
      readConfig({ BRAND_LOGO: logo(before + SVG) }).brand.logo?.type,
      'image/svg+xml',
      before,
    );
  }
  t.match(
    wrong({ BRAND_LOGO: 'https://cdn.example/logo.svg' }),
    /must be the path of an SVG or PNG file/,
  );
  t.match(
    wrong({ BRAND_LOGO: 'data:image/png;base64,xx' }),
    /must be the path of an SVG or PNG file/,
  );
  t.match(wrong({ BRAND_LOGO: join(dir, 'none.svg') }), /cannot be read: ENOENT/);
  t.match(wrong({ BRAND_LOGO: dir }), /it is a folder, not a regular file/);
  t.match(
    wrong({ BRAND_LOGO: logo('<html></html>', 'logo.svg') }),
    /an SVG or PNG file, by what is in it/,
  );
  t.match(
    wrong({ BRAND_LOGO: logo(Buffer.concat([PNG, Buffer.alloc(131_072)])) }),
    /at most 128 KiB/,
  );
  for (const active of [
    '<script>alert(1)</script>',
    '<a onclick="x()"/>',
    '<foreignObject/>',
    '<image href="https://cdn.example/x.png"/>',
    '<image xlink:href="//cdn.example/x.png"/>',
    '<style>@import "x"</style>',
    '<path fill="url(http://x/#a)"/>',
    '<a href="javascript:x()"/>',
  ]) {
    const text = SVG.replace('</svg>', `${active}</svg>`);
    t.match(
      wrong({ BRAND_LOGO: logo(text) }),
      /without scripts and without links to other addresses/,
      active,
    );
  }
});
