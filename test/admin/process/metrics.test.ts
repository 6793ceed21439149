import { readFileSync } from 'node:fs';
import t from 'tap';
import { speak } from '../../edge/raw.ts';
import { ask } from '../../support/client.ts';
import { startCollector } from '../../support/collector.ts';
import { until } from '../../support/until.ts';
import { CHAT, startWorld } from '../../support/world.ts';

// the metrics of a gateway that has served a few calls of every kind
const collector = await startCollector(t);
const world = await startWorld(t, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
const { customer } = world;
await world.part(customer, 'brand-failing', world.upstream.parts.failing);
await world.part(customer, 'brand-slow', world.upstream.parts.long);
await customer.chat();
await customer.chat({ stream: true });
await customer.chat({ model: 'brand-failing' });
await customer.chat({ model: 'unheard-of' });
await customer.embed();
await speak(world.url, ['no request\r\n\r\n']);
await world.ledger(customer.company, 3);
const text = await until(
  async () => (await ask(`${world.adminUrl}/metrics`)).text,
  'no request is in flight',
  (text) => /^tollgate_requests_in_flight 0$/m.test(text),
);

/** Every series of the gateway and the process: its name, and the names of its labels. */
const series = new Map(
  [...text.matchAll(/^(\w+)(?:\{([^}]*)\})? \S+$/gm)].map(([, name, labels = '']) => [
    name as string,
    [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label as string),
  ]),
);
const families = [...text.matchAll(/^# TYPE (tollgate_\w+) /gm)].map(([, name]) => name as string);

function value(name: string): number {
  const line = text.split('\n').find((line) => line.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

t.test('requests, tokens, money, times, streams, ledger and caches are measured', async (t) => {
  t.equal(value('tollgate_requests_total{endpoint="chat.completions",status="200"}'), 2);
  t.equal(value('tollgate_requests_total{endpoint="chat.completions",status="502"}'), 1);
  t.equal(value('tollgate_requests_total{endpoint="chat.completions",status="404"}'), 1);
  t.equal(value('tollgate_requests_total{endpoint="broken",status="400"}'), 1);
  t.equal(value('tollgate_usage_records_total{source="upstream",outcome="completed"}'), 3);
  t.ok(value('tollgate_tokens_total{direction="completion"}') > 0);
  t.ok(value('tollgate_cost_eur_total') > 0);
  const requests = value('tollgate_request_seconds_count');
  t.ok(requests >= 5);
  t.equal(value('tollgate_added_seconds_count'), requests);
  t.ok(value('tollgate_added_seconds_sum') > 0);
  t.ok(value('tollgate_added_seconds_sum') < value('tollgate_request_seconds_sum'));
  t.equal(value('tollgate_first_byte_seconds_count'), 1, 'of the one stream');
  t.equal(value('tollgate_open_streams'), 0);
  t.equal(value('tollgate_ledger_backlog'), 0);
  t.equal(value('tollgate_ledger_set_aside_total'), 0);
  t.ok(value('tollgate_cache_hits_total{cache="keys"}') >= 4);
  t.ok(value('tollgate_cache_misses_total{cache="keys"}') >= 1);
  t.ok(value('tollgate_cache_reads_total{cache="companies"}') >= 1);
  t.equal(value('tollgate_draining'), 0);
});

t.test('a stream counts as open until its client is gone', async (t) => {
  const leaving = new AbortController();
  const open = async () =>
    Number(
      /^tollgate_open_streams (\d+)$/m.exec((await ask(`${world.adminUrl}/metrics`)).text)?.[1],
    );
  const answer = await fetch(`${world.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'brand-slow',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
    }),
    signal: leaving.signal,
  });
  await answer.body?.getReader().read();
  t.equal(await open(), 1);
  leaving.abort();
  await until(open, 'no stream is open', (count) => count === 0);
});

t.test('labels are few, and none of them grows with keys, companies or models', async (t) => {
  const allowed = [
    'address', // of the router: by its number in UPSTREAM_URL
    'endpoint',
    'status',
    'direction',
    'source',
    'outcome',
    'cache',
    'result',
    'limit',
    'channel',
    'reason',
    'le',
  ];
  for (const [name, labels] of series) {
    if (!name.startsWith('tollgate_')) continue;
    t.same(
      labels.filter((label) => !allowed.includes(label)),
      [],
      name,
    );
  }
  for (const word of [
    customer.company,
    customer.key.slice(0, 8),
    CHAT,
    'brand-failing',
    'unheard-of',
    'internal',
  ]) {
    t.notOk(text.includes(word), word);
  }
});

t.test('monitoring.md has every metric, and no other', async (t) => {
  const document = readFileSync(new URL('../../../.deploy/monitoring.md', import.meta.url), 'utf8');
  const rows = [...document.matchAll(/^\| (`tollgate_.*?) \|/gm)].map(([, cell]) => cell as string);
  const told = rows.flatMap((cell) => [...cell.matchAll(/tollgate_\w+/g)].map(([name]) => name));
  t.same([...told].sort(), [...families].sort());
});

t.test('alerts of monitoring.md name existing metrics and labels', async (t) => {
  const document = readFileSync(new URL('../../../.deploy/monitoring.md', import.meta.url), 'utf8');
  const [, alerts = ''] = /^### What to alert on$(.*?)^## /ms.exec(document) ?? [];
  const asked = [...alerts.matchAll(/\b(tollgate_\w+)(?:\{(\w+)=)?/g)];
  t.ok(asked.length > 8);
  for (const [, name = '', label] of asked) {
    t.ok(series.has(name), name);
    if (label !== undefined) t.ok(series.get(name)?.includes(label), `${name}: ${label}`);
  }
});

t.test("monitoring.md has every member of a request's line in the log", async (t) => {
  const document = readFileSync(new URL('../../../.deploy/monitoring.md', import.meta.url), 'utf8');
  const [, logs = ''] = /^## Logs$(.*?)^## /ms.exec(document) ?? [];
  const lines = world.logged
    .map((line) => JSON.parse(line))
    .filter(({ endpoint }) => endpoint !== undefined);
  const members = new Set(lines.flatMap(Object.keys));
  t.ok(members.has('asked'));
  t.same(
    [...members].filter((name) => !logs.includes(`"${name}":`) && !logs.includes(`\`${name}\``)),
    [],
  );
});

t.test(
  'the dashboard can be imported, and every query names existing metrics and labels',
  async (t) => {
    const dashboard = JSON.parse(
      readFileSync(new URL('../../../.deploy/dashboard.json', import.meta.url), 'utf8'),
    ) as Dashboard;
    t.ok(Number.isInteger(dashboard.schemaVersion) && dashboard.schemaVersion >= 36);
    t.match(dashboard, {
      title: 'Tollgate',
      uid: /^[\w-]{1,40}$/,
      time: { from: String, to: String },
    });
    const variables = dashboard.templating.list;
    t.match(variables[0], { name: 'datasource', type: 'datasource', query: 'prometheus' });
    const names = ['__rate_interval', ...variables.map(({ name }) => name)];

    const { panels } = dashboard;
    t.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    const taken = new Set<string>();
    for (const { title, type, gridPos, targets, datasource, fieldConfig } of panels) {
      t.ok(['stat', 'timeseries'].includes(type) && title !== '' && targets.length > 0, title);
      t.equal(datasource.uid, `$\{datasource}`, title);
      t.type(fieldConfig.defaults.unit, 'string');
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          if (x >= 24 || taken.has(`${x} ${y}`))
            t.fail(`${title} lies outside, or on another panel`);
          taken.add(`${x} ${y}`);
        }
      }
      t.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
      for (const { expr, legendFormat } of targets) {
        for (const [, name] of expr.matchAll(/\$(\w+)/g))
          t.ok(names.includes(name as string), `${title}: $${name}`);
        const asked = [...expr.matchAll(/\b([a-z]\w*)\{([^}]*)\}/g)];
        t.ok(asked.length > 0, expr);
        for (const [, name, filter] of asked) {
          t.ok(series.has(name as string), `${title}: ${name}`);
          const labels = [
            ...(filter as string).matchAll(/(\w+)=/g),
            ...expr.matchAll(/\bby \((\w+)(?:, (\w+))?\)/g),
          ]
            .flatMap(([, ...found]) => found)
            .filter((label) => label !== undefined && label !== 'instance'); // added by Prometheus
          for (const label of labels)
            t.ok(series.get(name as string)?.includes(label as string), `${name}: ${label}`);
        }
        for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          t.ok(
            label === 'instance' ? !/\bsum|\bmax/.test(expr) : expr.includes('by ('),
            `${title}: ${legendFormat}`,
          );
        }
      }
    }
    const shown = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join();
    for (const family of families) t.match(shown, family, `it shows ${family}`);
  },
);

interface Dashboard {
  readonly schemaVersion: number;
  readonly templating: { readonly list: readonly { readonly name: string }[] };
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly type: string;
    readonly gridPos: {
      readonly x: number;
      readonly y: number;
      readonly w: number;
      readonly h: number;
    };
    readonly datasource: { readonly uid: string };
    readonly fieldConfig: { readonly defaults: { readonly unit: string } };
    readonly targets: readonly {
      readonly refId: string;
      readonly expr: string;
      readonly legendFormat: string;
    }[];
  }[];
}
