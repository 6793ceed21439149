import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import t from 'tap';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { readConfig, VARIABLES } from '../../src/config.ts';
import { tsc } from '../support/compile.ts';
import { render } from './template.ts';

/** The chart, rendered by test/deploy/template.ts, and what it has to share with the program and the image. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CHART = join(ROOT, '.deploy/chart');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const CHART_YAML = parse(read('.deploy/chart/Chart.yaml'));
const DEFAULTS = parse(read('.deploy/chart/values.yaml'));
const SCHEMA = JSON.parse(read('.deploy/chart/values.schema.json'));
const accepts = new Ajv({ allErrors: true, strict: false }).compile(SCHEMA);
const TEMPLATES = Object.fromEntries(
  readdirSync(join(CHART, 'templates')).map((name) => [
    name,
    read(`.deploy/chart/templates/${name}`),
  ]),
);

interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  // biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes check them
  readonly [name: string]: any;
}

const GIVEN = { upstreamUrl: 'http://router:4000/v1' };
const ALL = {
  ...GIVEN,
  image: { digest: `sha256:${'a'.repeat(64)}`, pullSecrets: [{ name: 'registry' }] },
  settings: { MAX_REQUESTS: '2000', API_URL: 'https://api.example.com/v1' },
  autoscaling: { enabled: true },
  spool: { medium: 'Memory' },
  service: { annotations: { 'example.com/a': 'b' } },
  ingress: {
    enabled: true,
    className: 'nginx',
    host: 'api.example.com',
    tlsSecretName: 'api-tls',
    annotations: { 'nginx.ingress.kubernetes.io/proxy-read-timeout': '310' },
  },
  networkPolicy: {
    enabled: true,
    apiFrom: [{ namespaceSelector: { matchLabels: { team: 'web' } } }],
    adminFrom: [
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } },
    ],
  },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
  serviceAccountName: 'tollgate',
  podAnnotations: { 'example.com/a': 'b' },
  podLabels: { team: 'platform' },
  nodeSelector: { 'kubernetes.io/arch': 'arm64' },
  tolerations: [{ key: 'dedicated', operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
  migration: {
    podAnnotations: { 'sidecar.istio.io/inject': 'false' },
    podLabels: { team: 'data' },
  },
  extraVolumes: [{ name: 'authority', configMap: { name: 'our-authority' } }],
  extraVolumeMounts: [{ name: 'authority', mountPath: '/authority', readOnly: true }],
  extraEnv: [{ name: 'NODE_EXTRA_CA_CERTS', value: '/authority/ca.pem' }],
};

/** As Helm merges them: maps deeply, lists as a whole. */
function merge(base: unknown, more: unknown): unknown {
  const isMap = (value: unknown): value is object =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isMap(base) || !isMap(more)) return more;
  const merged = Object.entries(more).map(([name, value]) => [
    name,
    merge(base[name as never], value),
  ]);
  return { ...base, ...Object.fromEntries(merged) };
}

/** What Helm gives to the templates. */
function rootOf(
  values: object,
  { name, version, appVersion } = CHART_YAML,
  release = { Name: 'tollgate', Namespace: 'default' },
): object {
  return {
    Values: merge(DEFAULTS, values),
    Chart: { Name: name, Version: version, AppVersion: appVersion },
    Release: { ...release, Service: 'Helm' },
  };
}

function resourcesOf(files: Readonly<Record<string, string>>): Resource[] {
  return Object.entries(files)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, text]) => parseAllDocuments(text))
    .flatMap((document) => {
      if ('errors' in document && document.errors.length > 0) throw document.errors[0];
      return document.toJS() ?? [];
    });
}

const rendered = (values: object): Resource[] => resourcesOf(render(TEMPLATES, rootOf(values)));

const find = (resources: readonly Resource[], kind: string): Resource =>
  resources.find((resource) => resource.kind === kind) as Resource;
const kinds = (values: object) =>
  rendered(values)
    .map(({ kind }) => kind)
    .sort();

t.test('the chart makes what is asked for, and no more', async (t) => {
  t.same(kinds(GIVEN), ['Deployment', 'Job', 'PodDisruptionBudget', 'Service', 'Service']);
  t.same(
    kinds({ ...GIVEN, migration: { enabled: false }, podDisruptionBudget: { enabled: false } }),
    ['Deployment', 'Service', 'Service'],
  );
  t.same(kinds(ALL), [
    'Deployment',
    'HorizontalPodAutoscaler',
    'Ingress',
    'Job',
    'NetworkPolicy',
    'PodDisruptionBudget',
    'PrometheusRule',
    'Service',
    'Service',
    'ServiceMonitor',
  ]);
});

t.test('Kubernetes knows every member that the chart writes, and its type', async (t) => {
  const resources = [rendered(GIVEN), rendered(ALL)].flat();
  for (const resource of resources) {
    const { [resource.kind]: Model } = await import(moduleOf(resource));
    t.doesNotThrow(
      () => new Model(resource).validate(),
      `${resource.kind} ${resource.metadata.name}`,
    );
  }
  // the schemas allow members that nobody knows; the types do not
  mkdirSync(join(ROOT, '.tap'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, '.tap/chart-')); // where imports find node_modules
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const lines = resources.flatMap((resource, n) => [
    `import type { I${resource.kind} as T${n} } from '${moduleOf(resource)}';`,
    `export const r${n}: T${n} = ${JSON.stringify(resource)};`,
  ]);
  writeFileSync(join(folder, 'resources.ts'), lines.join('\n'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const options = [
    '--ignoreConfig',
    '--strict',
    '--noEmit',
    '--skipLibCheck',
    '--module',
    'esnext',
    '--moduleResolution',
    'bundler',
  ];
  t.doesNotThrow(() => tsc([...options, '--types', '', 'resources.ts'], folder));
});

function moduleOf({ apiVersion, kind }: Resource): string {
  const owner = apiVersion.startsWith('monitoring.coreos.com/')
    ? '@kubernetes-models/prometheus-operator'
    : 'kubernetes-models';
  return `${owner}/${apiVersion}/${kind}`;
}

/** Debian's packages; Helm itself is in no registry that a checkout uses. */
const GO = { GOPATH: '/usr/share/gocode', GO111MODULE: 'off', GOFLAGS: '' };
const noGo =
  process.env.IMAGE !== '1'
    ? 'IMAGE=1 asks the engine of Helm too'
    : !existsSync(`${GO.GOPATH}/src/github.com/Masterminds/sprig`) &&
      'needs Go: apt-get install golang-go golang-github-masterminds-sprig-dev golang-gopkg-yaml.v3-dev';

t.test('the template engine of Helm makes the same of the chart', { skip: noGo }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-chart-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const paths = Object.keys(TEMPLATES).map((name) => join(CHART, 'templates', name));
  const program = join(ROOT, 'test/deploy/template.go');
  for (const values of [GIVEN, ALL]) {
    const root = join(folder, 'root.json');
    writeFileSync(root, JSON.stringify(rootOf(values)));
    const env = { ...process.env, ...GO };
    const printed = execFileSync('go', ['run', program, root, ...paths], { env, encoding: 'utf8' });
    t.same(resourcesOf(JSON.parse(printed)), rendered(values));
  }
});

t.test('a mistake in the values is refused by their schema', async (t) => {
  const refused = (values: object): boolean => !accepts(merge(DEFAULTS, values));
  t.ok(accepts(merge(DEFAULTS, GIVEN)), JSON.stringify(accepts.errors));
  t.ok(accepts(merge(DEFAULTS, ALL)), JSON.stringify(accepts.errors));
  t.ok(
    accepts(merge(DEFAULTS, { upstreamUrl: 'http://a:4000/v1, http://[fd00::1]:4000/v1' })),
    'several addresses',
  );
  t.ok(refused({}), 'no upstream');
  for (const mistake of [
    { upstreamUrl: 'router:4000' },
    { upstreamUrl: 'http://a/v1,' },
    { upstreamUrl: 'http://a/v1,b/v1' },
    { upstreamUrl: 'http://a/v1 http://b/v1' },
    { replica: 3 },
    { replicas: '3' },
    { replicas: 0 },
    { drain: { second: 3 } },
    { image: { digest: 'sha256:abc' } },
    { settings: { MAX_REQUESTS: 2000 } },
    { settings: { UPSTREAM_API_KEY: 'secret' } },
    { settings: { SPOOL_DIR: '/tmp' } },
    { secret: { keys: { MAX_REQUESTS: 'max' } } },
    { ingress: { enabled: true } },
    { host: 'all' },
    { fullnameOverride: 'Shop_1' },
    { spool: { volume: 'spool' } },
    { resources: { limits: { memory: '512MB' } } },
    { extraEnv: [{ value: 'nameless' }] },
    { extraVolumes: { name: 'authority' } },
  ]) {
    t.ok(refused({ ...GIVEN, ...mistake }), JSON.stringify(mistake));
  }
  const undescribed = Object.keys(DEFAULTS).filter(
    (name) => !Object.hasOwn(SCHEMA.properties, name),
  );
  t.same(undescribed, [], 'each value is described');
});

t.test('secrets are references only, and every variable is one of the program', async (t) => {
  const secrets = VARIABLES.filter(({ secret }) => secret).map(({ name }) => name);
  t.same(Object.keys(SCHEMA.properties.secret.properties.keys.properties).sort(), secrets.sort());
  const reserved: string[] = SCHEMA.properties.settings.propertyNames.not.enum;
  const known = VARIABLES.map(({ name }) => name);
  t.same(
    secrets.filter((name) => !reserved.includes(name)),
    [],
  );
  t.same(
    reserved.filter((name) => !known.includes(name)),
    [],
  );
  for (const kind of ['Deployment', 'Job']) {
    const { env } = find(rendered(ALL), kind).spec.template.spec.containers[0];
    const names: string[] = env.map(({ name }: { name: string }) => name);
    t.equal(new Set(names).size, names.length, `${kind} sets nothing twice`);
    t.same(
      names.filter((name) => !known.includes(name) && name !== 'NODE_EXTRA_CA_CERTS'),
      [],
    );
    const values = env.filter(({ value }: { value?: string }) => value !== undefined);
    t.same(
      values.filter(({ name }: { name: string }) => secrets.includes(name)),
      [],
    );
    const texts = Object.fromEntries(
      values.map((each: { name: string; value: string }) => [each.name, each.value]),
    );
    t.doesNotThrow(() => readConfig(texts), 'the program takes the values');
  }
});

t.test('pods have the time to drain, and leave the Service first', async (t) => {
  const drains = [
    DEFAULTS.drain,
    { delaySeconds: 40, seconds: 600 },
    { delaySeconds: 0, seconds: 0 },
  ];
  for (const drain of drains) {
    const { spec } = find(rendered({ ...GIVEN, drain }), 'Deployment').spec.template;
    t.ok(spec.terminationGracePeriodSeconds > drain.delaySeconds + drain.seconds + 10);
    const env = spec.containers[0].env;
    t.same(
      env.find((each: { name: string }) => each.name === 'DRAIN_SECONDS').value,
      String(drain.seconds),
    );
  }
  const { periodSeconds, failureThreshold } = find(rendered(GIVEN), 'Deployment').spec.template.spec
    .containers[0].readinessProbe;
  t.ok(DEFAULTS.drain.delaySeconds > periodSeconds * failureThreshold);
});

t.test('the migration runs before the pods of a new version', async (t) => {
  const job = find(rendered(GIVEN), 'Job');
  t.equal(job.metadata.annotations['helm.sh/hook'], 'pre-install,pre-upgrade');
  const [container] = job.spec.template.spec.containers;
  t.same(container.args, ['migrate']);
  t.equal(
    container.image,
    find(rendered(GIVEN), 'Deployment').spec.template.spec.containers[0].image,
  );
  t.not(
    job.spec.template.metadata.labels['app.kubernetes.io/component'],
    'gateway',
    'no Service sends to it',
  );
});

t.test('the migration takes what the pods take', async (t) => {
  const [pods, job] = ['Deployment', 'Job'].map(
    (kind) => find(rendered(ALL), kind).spec.template,
  ) as [Resource, Resource];
  const ofBoth = [
    'serviceAccountName',
    'imagePullSecrets',
    'securityContext',
    'nodeSelector',
    'tolerations',
    'affinity',
  ];
  for (const name of ofBoth) {
    t.ok(pods.spec[name], name);
    t.same(job.spec[name], pods.spec[name], name);
  }
  t.equal(pods.metadata.labels.team, 'platform');
  t.equal(job.metadata.labels.team, 'data', 'what is of the Job alone goes before');
  t.same(pods.metadata.annotations, ALL.podAnnotations);
  t.same(job.metadata.annotations, { ...ALL.podAnnotations, ...ALL.migration.podAnnotations });
  for (const { spec } of [pods, job]) {
    t.match(spec.volumes.at(-1), ALL.extraVolumes[0]);
    t.match(spec.containers[0].volumeMounts.at(-1), ALL.extraVolumeMounts[0]);
    t.same(
      spec.containers[0].env.find(({ name }: { name: string }) => name === 'NODE_EXTRA_CA_CERTS'),
      ALL.extraEnv[0],
    );
  }
});

t.test('every label is one that Kubernetes takes, whatever the version', async (t) => {
  for (const version of [
    '0.1.0+build.5',
    `0.1.0-rc.1+${'a'.repeat(49)}-bcd`,
    `1.0.0+${'b'.repeat(80)}`,
  ]) {
    const resources = resourcesOf(
      render(TEMPLATES, rootOf(ALL, { ...CHART_YAML, version, appVersion: version })),
    );
    const labels = resources.flatMap(({ metadata, spec }) =>
      Object.entries({ ...metadata.labels, ...spec.template?.metadata.labels }),
    );
    t.same(
      labels.filter(([, value]) => !/^([a-z0-9]([\w.-]{0,61}[a-z0-9])?)?$/i.test(value as string)),
      [],
    );
  }
});

t.test('the rules of each release are about its own gateways', async (t) => {
  const rulesOf = (Name: string, Namespace: string) =>
    find(
      resourcesOf(render(TEMPLATES, rootOf(ALL, CHART_YAML, { Name, Namespace }))),
      'PrometheusRule',
    ).spec.groups[0].rules;
  for (const { expr } of rulesOf('busy-test', 'staging') as { expr: string }[]) {
    const series = expr.match(/\b(?:up|tollgate_\w+)\b[^)\s]*/g) as string[];
    t.ok(series.length > 0);
    for (const each of series)
      t.match(each, /^\w+\{namespace="staging",job="busy-test-admin"[,}]/, expr);
    if (!expr.startsWith('up{'))
      t.match(expr, / by \(namespace, job(, \w+)?\) /, 'and the alert says whose it is');
  }
});

t.test('two releases of one namespace can have names that do not meet', async (t) => {
  const namesOf = (Name: string, values: object = ALL) =>
    resourcesOf(render(TEMPLATES, rootOf(values, CHART_YAML, { Name, Namespace: 'default' }))).map(
      ({ kind, metadata: { name } }) => `${kind} ${name}`,
    );
  const shop = namesOf('shop');
  const other = namesOf('shop-admin', { ...ALL, fullnameOverride: 'office' });
  t.same(
    other.filter((each) => shop.includes(each)),
    [],
  );
  t.same(
    other.filter((each) => !/ office(-admin|-migrate)?$/.test(each)),
    [],
  );
  const named = rendered({ ...ALL, fullnameOverride: 'office' });
  const { spec } = find(named, 'Ingress');
  t.equal(spec.rules[0].http.paths[0].backend.service.name, 'office');
  t.equal(find(named, 'HorizontalPodAutoscaler').spec.scaleTargetRef.name, 'office');
  t.match(find(named, 'PrometheusRule').spec.groups[0].rules[0].expr, 'job="office-admin"');
});

t.test('fewer pods at most than at least are refused', async (t) => {
  const scaled = (minReplicas: number, maxReplicas: number) => () =>
    rendered({ ...ALL, autoscaling: { enabled: true, minReplicas, maxReplicas } });
  t.throws(scaled(8, 6), { message: 'autoscaling.maxReplicas is below autoscaling.minReplicas' });
  t.doesNotThrow(scaled(6, 6));
});

t.test('pods are taken away only where the spool stays', async (t) => {
  const scaleDown = (values: object) =>
    find(rendered(values), 'HorizontalPodAutoscaler').spec.behavior.scaleDown;
  t.match(scaleDown(ALL), { selectPolicy: 'Disabled' });
  const volume = { persistentVolumeClaim: { claimName: 'spool' } };
  const kept = { ...ALL, spool: { volume } };
  t.match(scaleDown(kept), { selectPolicy: undefined });
  const { volumes } = find(rendered(kept), 'Deployment').spec.template.spec;
  t.same(volumes[0], { name: 'spool', ...volume });
});

t.test('listeners have the address of the image unless another one is given', async (t) => {
  const addresses = (values: object) => {
    const { env } = find(rendered(values), 'Deployment').spec.template.spec.containers[0];
    return env.filter(({ name }: Resource) => /HOST$/.test(name as string));
  };
  t.match(read('Dockerfile'), /^ENV .*\bHOST=:: ADMIN_HOST=:: /m);
  t.same(addresses(GIVEN), []);
  t.same(addresses({ ...GIVEN, host: '0.0.0.0' }), [
    { name: 'HOST', value: '0.0.0.0' },
    { name: 'ADMIN_HOST', value: '0.0.0.0' },
  ]);
});

t.test('a router without a key needs none in the Secret', async (t) => {
  const { env } = find(rendered(GIVEN), 'Deployment').spec.template.spec.containers[0];
  const optional = env.filter((each: Resource) => each.valueFrom?.secretKeyRef.optional);
  t.same(
    optional.map(({ name }: { name: string }) => name),
    ['UPSTREAM_API_KEY'],
  );
});

t.test('selectors choose the pods of the gateway, and the monitor the admin Service', async (t) => {
  const resources = rendered(ALL);
  const { labels } = find(resources, 'Deployment').spec.template.metadata;
  const chooses = (selector: object, of: object) => t.match(of, selector);
  chooses(find(resources, 'Deployment').spec.selector.matchLabels, labels);
  chooses(find(resources, 'PodDisruptionBudget').spec.selector.matchLabels, labels);
  chooses(find(resources, 'NetworkPolicy').spec.podSelector.matchLabels, labels);
  const services = resources.filter(({ kind }) => kind === 'Service');
  for (const { spec } of services) chooses(spec.selector, labels);
  const { matchLabels } = find(resources, 'ServiceMonitor').spec.selector;
  const monitored = services.filter(({ metadata }) =>
    Object.entries(matchLabels).every(([name, value]) => metadata.labels[name] === value),
  );
  t.same(
    monitored.map(({ metadata }) => metadata.name),
    ['tollgate-admin'],
  );
  const down = find(resources, 'PrometheusRule').spec.groups[0].rules[0];
  t.equal(down.expr, 'up{namespace="default",job="tollgate-admin"} == 0');
});

t.test('chart, image and package agree', async (t) => {
  const { version } = JSON.parse(read('package.json'));
  t.match(CHART_YAML, { version, appVersion: version });
  const dockerfile = read('Dockerfile');
  t.match(dockerfile, `ARG VERSION=${version}\n`);
  const { spec } = find(rendered(GIVEN), 'Deployment').spec.template;
  const [container] = spec.containers;
  t.match(
    dockerfile,
    `USER ${spec.securityContext.runAsUser}:${spec.securityContext.runAsGroup}\n`,
  );
  t.match(
    dockerfile,
    `EXPOSE ${container.ports.map(({ containerPort }: { containerPort: number }) => containerPort).join(' ')}\n`,
  );
  t.match(dockerfile, `VOLUME ${container.volumeMounts[0].mountPath}\n`);
  t.equal(container.image, `tollgate:${version}`);
  t.match(
    find(rendered(ALL), 'Deployment').spec.template.spec.containers[0].image,
    /^tollgate@sha256:a{64}$/,
  );
});

t.test('the rules are the alerts of the manual', async (t) => {
  const rules: { expr: string; annotations: { summary: string }; for?: string }[] = find(
    rendered(ALL),
    'PrometheusRule',
  ).spec.groups[0].rules;
  const manual = ['src', '.deploy', 'sql']
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((f) =>
        join(folder, f),
      ),
    )
    .filter((path) => path.endsWith('.md'))
    .map(read)
    .find((text) => /^#+ What to alert on$/m.test(text)) as string;
  const table = manual.split(/^#+ What to alert on$/m)[1]?.split(/^#/m)[0] as string;
  const rows = [...table.matchAll(/^\| ([^|`]+) \| `(.*?)`( for a minute)? \|/gm)].map(
    ([, name, expr, minute]) => ({
      name,
      expr,
      for: minute === undefined ? undefined : '1m',
    }),
  );
  t.same(
    rules.map((rule) => ({
      name: rule.annotations.summary,
      // the manual speaks of one installation
      expr: rule.expr
        .replaceAll('{namespace="default",job="tollgate-admin"}', '')
        .replaceAll('namespace="default",job="tollgate-admin",', '')
        .replaceAll(' by (namespace, job) ', '')
        .replaceAll('by (namespace, job, ', 'by ('),
      for: rule.for,
    })),
    rows,
  );
});

t.test('given the router alone, the chart makes the deployment beside it', async (t) => {
  const yaml = stringify(find(rendered(GIVEN), 'Deployment'), {
    lineWidth: 0,
    aliasDuplicateObjects: false,
  }).replaceAll(CHART_YAML.version, 'VERSION');
  const path = join(ROOT, 'test/deploy/deployment.yaml');
  if (process.env.UPDATE_README === '1') writeFileSync(path, yaml);
  t.equal(
    readFileSync(path, 'utf8'),
    yaml,
    'UPDATE_README=1 node test/deploy/chart.test.ts writes it again',
  );
});
