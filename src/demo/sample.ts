import type { Json } from './request.ts';

/** Levels of a schema that a sample follows before it takes the shortest way out of a recursion. */
const DEEP = 6;
/** Levels after which a sample ends, whatever the schema says. */
const MOST_DEPTH = 32;
/** Values after which it ends; items of one list, and characters of one string. */
const MOST_VALUES = 10_000;
/** Characters after which it ends. */
const MOST_TEXT = 200_000;

type Numbers = Readonly<Record<string, number | undefined>>;

/** Strings of the formats that structured outputs may ask for. */
const FORMATS: Readonly<Record<string, string>> = {
  'date-time': '2026-01-31T12:00:00Z',
  date: '2026-01-31',
  time: '12:00:00Z',
  duration: 'P1D',
  email: 'demo@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
};

/**
 * A value that a JSON Schema allows, of the kind that SDKs generate from types: all that strict
 * structured outputs may contain but `pattern`. Objects have their required members, or all if none is.
 * @param text what strings say
 */
export function sample(root: unknown, text: string): unknown {
  let made = 0;
  let written = 0;
  return valueFor(root, 0);

  function counted<T>(value: T): T {
    written += JSON.stringify(value)?.length ?? 0;
    return value;
  }

  function valueFor(schema: unknown, depth: number): unknown {
    if (typeof schema !== 'object' || schema === null || depth > MOST_DEPTH) return {};
    if (made++ > MOST_VALUES || written > MOST_TEXT) return {};
    const isDeep = depth > DEEP;
    const shape = schema as Json;
    const inner = (part: unknown) => valueFor(part, depth + 1);
    if (typeof shape.$ref === 'string') return inner(target(shape.$ref, root));
    if ('const' in shape) return counted(shape.const);
    if (Array.isArray(shape.enum)) return counted(shape.enum[0]);
    const options = shape.anyOf ?? shape.oneOf;
    if (Array.isArray(options))
      return inner((isDeep ? options.find(isPlain) : undefined) ?? options[0]);
    if (Array.isArray(shape.allOf)) return allOf(shape, inner);

    const types = [shape.type].flat();
    switch (
      isDeep && types.includes('null')
        ? 'null'
        : (types.find((type) => type !== 'null') ?? types[0])
    ) {
      case 'string':
        return counted(stringFor(shape, text));
      case 'integer':
      case 'number':
        return numberFor(shape);
      case 'boolean':
        return true;
      case 'null':
        return null;
      case 'array': {
        const { minItems = isDeep ? 0 : 1, prefixItems = [] } = shape as {
          minItems?: number;
          prefixItems?: [];
        };
        const first = prefixItems.map(inner);
        const length = Math.min(minItems, MOST_VALUES) - first.length;
        return [...first, ...Array.from({ length }, () => inner(shape.items))];
      }
      default: {
        const { properties = {}, required = [] } = shape as {
          properties?: Json;
          required?: string[];
        };
        const names = isDeep || required.length > 0 ? required : Object.keys(properties);
        return Object.fromEntries(counted(names).map((name) => [name, inner(properties[name])]));
      }
    }
  }
}

/** Whether a sample of a schema goes no level deeper. */
function isPlain({ $ref, type }: Json): boolean {
  return $ref === undefined && type !== 'object' && type !== 'array';
}

/** A value that all parts of a schema allow, if they are objects, or that the first part allows. */
function allOf({ allOf, ...shape }: Json, inner: (part: unknown) => unknown): unknown {
  const [first, ...others] = (allOf as unknown[]).map(inner);
  if (typeof first !== 'object') return first;
  return Object.assign({}, first, ...others, 'properties' in shape ? inner(shape) : {});
}

function stringFor(shape: Json, text: string): string {
  const {
    format,
    minLength = 0,
    maxLength,
  } = shape as { format?: string; minLength?: number; maxLength?: number };
  return (
    FORMATS[format ?? ''] ?? text.padEnd(Math.min(minLength, MOST_VALUES), '.').slice(0, maxLength)
  );
}

function numberFor(shape: Json): number {
  const {
    minimum,
    maximum,
    exclusiveMinimum = -Infinity,
    exclusiveMaximum = Infinity,
    multipleOf,
  } = shape as Numbers;
  const gap = shape.type === 'number' ? 0.01 : 1;
  const wanted = Math.max(
    minimum ?? exclusiveMinimum + gap,
    Math.min(1, maximum ?? exclusiveMaximum - gap),
  );
  return multipleOf === undefined ? wanted : Math.ceil(wanted / multipleOf) * multipleOf;
}

/** The target of a local reference such as `#/$defs/City`. */
function target(reference: string, root: unknown): unknown {
  const path = reference.replace(/^#\/?/, '').split('/').filter(Boolean);
  const unescaped = path.map((name) =>
    decodeURIComponent(name).replaceAll('~1', '/').replaceAll('~0', '~'),
  );
  return unescaped.reduce((at: unknown, name) => (at as Json | undefined)?.[name], root);
}
