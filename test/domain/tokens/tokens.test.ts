import t from 'tap';
import { countTokens, countWeighted } from '../../../src/domain/tokens/tokens.ts';
import { TEXTS } from '../../faults/upstream.ts';

/** Texts and what two real tokenizers make of them: OpenAI's o200k_base and that of Llama 3. */
const COUNTED: readonly (readonly [kind: string, text: string, o200k: number, llama3: number])[] = [
  ['prose', TEXTS.prose as string, 107, 107],
  ['code', TEXTS.code as string, 101, 103],
  ['chinese', TEXTS.chinese as string, 49, 55],
  ['tool', TEXTS.tool as string, 62, 60],
  ['german', TEXTS.german as string, 88, 107],
  ['python', TEXTS.python as string, 101, 101],
  ['table', TEXTS.table as string, 130, 126],
  [
    'declaration, english',
    'Article 2 Everyone is entitled to all the rights and freedoms set forth in this Declaration, without distinction of any kind, such as race, colour, sex, language, religion, political or other opinion, national or social origin, property, birth or other status. Furthermore, no distinction shall be made on the basis of the political, jurisdictional or international status of the country or territory to which a person belongs, whether it be independent, trust, non‐self‐governing or under any other limitation of sovereignty. Article 3 Everyone has the right to life, liberty and the security of per',
    121,
    121,
  ],
  [
    'declaration, german',
    'Artikel 2 Jeder hat Anspruch auf die in dieser Erklärung verkündeten Rechte und Freiheiten ohne irgendeinen Unterschied, etwa nach Rasse, Hautfarbe, Geschlecht, Sprache, Religion, politischer oder sonstiger Überzeugung, nationaler oder sozialer Herkunft, Vermögen, Geburt oder sonstigem Stand. Des Weiteren darf kein Unterschied gemacht werden auf Grund der politischen, rechtlichen oder internationalen Stellung des Landes oder Gebiets, dem eine Person angehört, gleichgültig ob dieses unabhängig ist, unter Treuhandschaft steht, keine Selbstregierung besitzt oder sonst in seiner Souveränität einge',
    123,
    154,
  ],
  [
    'declaration, french',
    'Article 2 Chacun peut se prévaloir de tous les droits et de toutes les libertés proclamés dans la présente Déclaration, sans distinction aucune, notamment de race, de couleur, de sexe, de langue, de religion, d’opinion politique ou de toute autre opinion, d’origine nationale ou sociale, de fortune, de naissance ou de toute autre situation. De plus, il ne sera fait aucune distinction fondée sur le statut politique, juridique ou international du pays ou du territoire dont une personne est ressortissante, que ce pays ou territoire soit indépendant, sous tutelle, non autonome ou soumis à une limit',
    125,
    151,
  ],
  [
    'declaration, spanish',
    'Artículo 2 Toda persona tiene todos los derechos y libertades proclamados en esta Declaración, sin distinción alguna de raza, color, sexo, idioma, religión, opinión política o de cualquier otra índole, origen nacional o social, posición económica, nacimiento o cualquier otra condición. Además, no se hará distinción alguna fundada en la condición política, jurídica o internacional del país o territorio de cuya jurisdicción dependa una persona, tanto si se trata de un país independiente, como de un territorio bajo administración fiduciaria, no autónomo o sometido a cualquier otra limitación de s',
    118,
    148,
  ],
  [
    'declaration, russian',
    'Статья 2 Каждый человек должен обладать всеми правами и всеми свободами, провозглашенными настоящей Декларацией, без какого бы то ни было различия, как-то в отношении расы, цвета кожи, пола, языка, религии, политических или иных убеждений, национального или социального происхождения, имущественного, сословного или иного положения. Кроме того, не должно проводиться никакого различия на основе политического, правового или международного статуса страны или территории, к которой человек принадлежит, независимо от того, является ли эта территория независимой, подопечной, несамоуправляющейся или как',
    140,
    166,
  ],
  [
    'declaration, chinese',
    '第二条 人人有资格享有本宣言所载的一切权利和自由,不分种族、肤色、性别、语言、宗教、政治或其他见解、国籍或社会出身、财产、出生或其他身分等任何区别。 并且不得因一人所属的国家或领土的政治的、行政的或者国际的地位之不同而有所区别,无论该领土是独立领土、托管领土、非自治领土或者处于其他任何主权受限制的情况之下。 第三条 人人有权享有生命、自由和人身安全。 第四条 任何人不得使为奴隶或奴役;一切形式的奴隶制度和奴隶买卖,均应予以禁止。 第五条',
    180,
    180,
  ],
  [
    'declaration, japanese',
    '促進を達成することを誓約したので、 これらの権利及び自由に対する共通の理解は、この誓約を完全にするためにもっとも重要であるので、 よって、ここに、国連総会は、 社会の各個人及び各機関が、この世界人権宣言を常に念頭に置きながら、加盟国自身の人民の間にも、また、加盟国の管轄下にある地域の人民の間にも、これらの権利と自由との尊重を指導及び教育によって促進すること並びにそれらの普遍的措置によって確保することに努力するように、すべての人民とすべて',
    173,
    150,
  ],
  [
    'html',
    '<!doctype html>\n<html lang="en">\n  <head>\n    <meta charset="utf-8">\n    <title>Usage</title>\n    <link rel="stylesheet" href="/assets/site.css">\n  </head>\n  <body>\n    <main class="page">\n      <h1>Usage this month</h1>\n      <p>You have spent <strong>12.40 EUR</strong> of 50.00 EUR.</p>\n      <a class="button" href="/keys/new">Create a key</a>\n    </main>\n  </body>\n</html>\n',
    124,
    124,
  ],
  [
    'numbers',
    '3.14159265, 2.71828182, 1.41421356, 1.73205080, 0.57721566, 1.61803398\n12, 144, 1728, 20736, 248832, 2985984, 35831808\n',
    68,
    68,
  ],
  [
    'base64',
    'AKpdF9qjdU4wGAkBAgkZMFB2pdsaX60CYMQxpSKlMcRgAq1fGtuldlAwGQkCAQkYME51o9oXXaoAXMEtoh2hLMBa/adaE9WecEgpEQL5+QAQJkVrms8NUqD0UbUilRGUILJN75pLBcaQYDkZAvHp6PD+FTNah736QIzhPaINgfyACp032oM17rB4SSEC6dnQ0Nbl+xo/baLgJHHFIoXxZOBi7X8au2UW0JBZKQLhybiwrrXD2vcdSoC8AU2i/WHMQLo9x1rzlT7wqGkxAtm5oJCGhYuar83yIFSR1SJ10TSgEo0PmivFZhDAeTkC0amIcF5VU1pnfZrA7CFdou1BnABq3VfaY/WOMNiJQQLJmXBQNiUbGh8tQmCEseUiZbEEYMItnxqbJbZQ8JlJ',
    269,
    283,
  ],
  [
    'json',
    '{"object":"list","data":[{"id":"model-0","created":1763700000,"owned_by":"tollgate","active":true,"price":0},{"id":"model-1","created":1763700977,"owned_by":"tollgate","active":false,"price":0.25},{"id":"model-2","created":1763701954,"owned_by":"tollgate","active":true,"price":0.5},{"id":"model-3","created":1763702931,"owned_by":"tollgate","active":false,"price":0.75},{"id":"model-4","created":1763703908,"owned_by":"tollgate","active":true,"price":1}]}',
    155,
    154,
  ],
];

t.test('a text is counted about as tokenizers of today count it', async (t) => {
  for (const [kind, text, o200k, llama3] of COUNTED) {
    const between = Math.sqrt(o200k * llama3); // they differ by a quarter where a language is not English
    const found = countTokens(text);
    t.ok(
      Math.abs(found / between - 1) < 0.2,
      `${kind}: ${found.toFixed(0)}, really ${o200k} or ${llama3}`,
    );
  }
});

t.test('identifiers of random digits and letters have no words', async (t) => {
  const digest = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';
  t.ok(Math.abs(countTokens(digest) - 38) < 6, 'o200k: 38');
  t.ok(countTokens('createServerSideRenderer') < 6);
});

t.test('a drawn line is no hundred tokens', async (t) => {
  t.ok(countTokens('─'.repeat(100)) < 50);
  t.ok(countTokens('-'.repeat(100)) < 5);
  t.ok(countTokens(' '.repeat(100)) < 3);
});

t.test('nothing has no tokens', async (t) => {
  t.equal(countTokens(''), 0);
  t.equal(countWeighted([]), 0);
});

t.test('a piece counts as often as it says', async (t) => {
  const text = ' the weather held and the bridge was built';
  const found = countWeighted([
    { text, weight: 3 },
    { text, weight: 0.5 },
  ]);
  t.ok(Math.abs(found - 3.5 * countTokens(text)) < 1e-9);
});
