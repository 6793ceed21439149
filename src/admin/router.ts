import { NotFound, type Route } from './visit.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * The route of a path, and the identifiers in it. HEAD is answered as GET.
 * @throws NotFound also for a known path with another method
 */
export function findRoute(
  routes: readonly Route[],
  method: string,
  path: string,
): { route: Route; params: Readonly<Record<string, string>> } {
  const wanted = method === 'HEAD' ? 'GET' : method;
  const segments = path.split('/');
  for (const route of routes) {
    if (route.method !== wanted) continue;
    const params = match(route.path.split('/'), segments);
    if (params !== null) return { route, params };
  }
  throw new NotFound();
}

function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of pattern.entries()) {
    const segment = segments[at] as string;
    if (!part.startsWith(':')) {
      if (part !== segment) return null;
      continue;
    }
    const id = segment.toLowerCase();
    if (!UUID.test(id)) return null;
    params[part.slice(1)] = id;
  }
  return params;
}
