import { getOrCreate } from '../core/get-or-create.ts'
import type { Route } from './route.ts'

/**
 * The result of a lookup; `wrong method` is for 405 and OPTIONS. `missing`: the path ends in a slash, and with this parameter
 * behind it the method would be right.
 */
export type Match =
  | { kind: 'found'; route: Route; names: readonly string[]; raw: readonly string[] }
  | { kind: 'wrong method'; allow: string; route: Route; missing?: string | undefined }
  | { kind: 'unknown' }

type Leaf = Map<string, { route: Route; names: readonly string[] }>
type Node = {
  statics: Map<string, Node>
  param: Node | undefined
  leaf: Leaf | undefined
  rest: Leaf | undefined
  /** Routes `{name...}/word`, by word. */
  restBefore: Map<string, Leaf>
}

const NO_PARAMS: readonly string[] = []
const UNKNOWN: Match = { kind: 'unknown' }
const newNode = (): Node => ({
  statics: new Map(),
  param: undefined,
  leaf: undefined,
  rest: undefined,
  restBefore: new Map(),
})

/**
 * Matches exactly and case-sensitively. Only one trailing slash is ignored, so no other spelling of a path can reach a
 * route with a weaker guard; in a `{name...}` parameter the slash is kept, because it is part of an object's name. A
 * literal segment wins over `{name}`, which wins over `{name...}/word`, which wins over `{name...}`.
 */
export function createRouter(routes: readonly Route[]) {
  const root = newNode()
  const direct = new Map<string, Map<string, Match>>()

  for (const route of routes) {
    add(root, route)
    if (route.path.includes('{')) continue
    const methods = getOrCreate(direct, route.path, () => new Map())
    methods.set(route.method, { kind: 'found', route, names: NO_PARAMS, raw: NO_PARAMS })
  }

  return {
    find(method: string, path: string): Match {
      const routeMethod = method === 'HEAD' ? 'GET' : method
      const hit = direct.get(path)?.get(routeMethod)
      if (hit !== undefined) return hit
      if (!path.startsWith('/')) return UNKNOWN
      const asGiven = search(root, path, routeMethod)
      if (asGiven.kind !== 'unknown' || path === '/' || !path.endsWith('/')) return asGiven
      const match = search(root, path.slice(0, -1), routeMethod)
      return match.kind === 'wrong method' ? { ...match, missing: missingIn(root, path, routeMethod) } : match
    },
  }
}

/** The last parameter of the route that a name behind the path would reach. */
function missingIn(root: Node, path: string, method: string): string | undefined {
  const item = search(root, `${path}-`, method)
  return item.kind === 'found' ? /\{(\w+)\}$/.exec(item.route.path)?.[1] : undefined
}

function search(root: Node, path: string, method: string): Match {
  const segments = path.slice(1).split('/')
  const found = walk(root, segments, 0, NO_PARAMS, method)
  if (found !== undefined) return found
  const offered = new Map<string, Route>()
  walk(root, segments, 0, NO_PARAMS, method, offered)
  const [route] = offered.values()
  if (!route) return UNKNOWN
  return { kind: 'wrong method', allow: allowHeader(offered.keys()), route }
}

function add(root: Node, route: Route): void {
  const segments = route.path.slice(1).split('/')
  let node = root
  for (const [i, segment] of segments.entries()) {
    if (segment.endsWith('...}')) {
      put(restLeaf(node, route.path, segments.slice(i + 1)), route)
      return
    }
    node = segment.startsWith('{') ? paramChild(node) : getOrCreate(node.statics, segment, newNode)
  }
  node.leaf ??= new Map()
  put(node.leaf, route)
}

function restLeaf(node: Node, path: string, [word, ...more]: string[]): Leaf {
  if (more.length > 0 || word?.startsWith('{')) throw new Error(`only one word may follow {name...}: ${path}`)
  if (word === undefined) {
    node.rest ??= new Map()
    return node.rest
  }
  return getOrCreate(node.restBefore, word, () => new Map())
}

function put(leaf: Leaf, route: Route): void {
  const other = leaf.get(route.method)
  if (other) throw new Error(`duplicate route: ${route.method} ${route.path} and ${other.route.path}`)
  leaf.set(route.method, { route, names: paramNames(route.path) })
}

function paramChild(node: Node): Node {
  node.param ??= newNode()
  return node.param
}

/** Continues when a path exists without the method, and collects its methods in `offered` for `Allow`. */
function walk(
  node: Node,
  segments: readonly string[],
  at: number,
  raw: readonly string[],
  method: string,
  offered?: Map<string, Route>,
): Match | undefined {
  const segment = segments[at]
  if (segment === undefined) return pick(node.leaf, raw, method, offered)
  const child = node.statics.get(segment)
  const literal = child && walk(child, segments, at + 1, raw, method, offered)
  if (literal) return literal
  if (segment === '') return undefined
  const named = node.param && walk(node.param, segments, at + 1, [...raw, segment], method, offered)
  return named ?? walkRest(node, segments.slice(at), raw, method, offered)
}

function walkRest(
  { rest, restBefore }: Node,
  segments: readonly string[],
  raw: readonly string[],
  method: string,
  offered?: Map<string, Route>,
): Match | undefined {
  const before = segments.length > 1 ? restBefore.get(segments.at(-1) ?? '') : undefined
  const found = before && pick(before, [...raw, segments.slice(0, -1).join('/')], method, offered)
  return found ?? pick(rest, [...raw, segments.join('/')], method, offered)
}

function pick(
  leaf: Leaf | undefined,
  raw: readonly string[],
  method: string,
  offered?: Map<string, Route>,
): Match | undefined {
  if (leaf === undefined) return undefined
  const entry = leaf.get(method)
  if (entry) return { kind: 'found', route: entry.route, names: entry.names, raw }
  if (offered) for (const [name, { route }] of leaf) offered.set(name, route)
  return undefined
}

function allowHeader(methods: Iterable<string>): string {
  const all = new Set(methods)
  if (all.has('GET')) all.add('HEAD')
  return [...all, 'OPTIONS'].join(', ')
}

/** `/api/things/{id}/{path...}` → ['id', 'path'] */
const paramNames = (path: string): string[] => [...path.matchAll(/\{(\w+)(?:\.\.\.)?\}/g)].map(([, name]) => name ?? '')
