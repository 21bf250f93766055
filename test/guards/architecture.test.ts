import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

// The whole architecture, as data. Anything not listed is forbidden.
const mayImport: Record<string, readonly string[]> = {
  core: [],
  config: ['core'],
  db: ['core'],
  pages: ['core'],
  http: ['core', 'pages'],
  identity: ['core', 'db', 'http'],
  features: ['core', 'db', 'http', 'identity'],
  app: ['core', 'db', 'http', 'identity', 'features', 'config', 'root'],
  cli: ['core', 'db', 'http', 'identity', 'features', 'config', 'app', 'root', 'client'],
  root: ['core', 'db', 'http', 'identity', 'features', 'config', 'app', 'cli'],
}

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name: `src/${name}`, text: readFileSync(join('src', name), 'utf8') }))
const sources = files.filter(({ name }) => !name.endsWith('.test.ts'))

/** src/features/mfa/totp.ts → features, mfa; src/app.ts → root */
function placeOf(file: string): { layer: string; feature: string } {
  const [top, layer = '', feature = ''] = file.split('/')
  if (top === 'client') return { layer: top, feature: '' }
  if (layer.endsWith('.ts')) return { layer: 'root', feature: '' }
  return { layer, feature: layer === 'features' ? feature : '' }
}

const importsOf = (text: string): string[] =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, path = '']) => path)

test('imports only point downward, and no feature imports another', () => {
  const wrong = sources.flatMap(({ name, text }) => {
    const from = placeOf(name)
    return importsOf(text)
      .filter((path) => path.startsWith('.') && !path.endsWith('.md'))
      .filter((path) => {
        const to = placeOf(join(dirname(name), path))
        return from.layer === to.layer ? from.feature !== to.feature : !mayImport[from.layer]?.includes(to.layer)
      })
      .map((path) => `${name} → ${path}`)
  })
  assert.deepEqual(wrong, [])
})

type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Which node imports which, by value or by type. */
function graphOf(nodeOf: (file: string) => string, among = sources): Graph {
  const graph = new Map<string, Set<string>>()
  for (const { name, text } of among) {
    const imported = graph.get(nodeOf(name)) ?? new Set()
    graph.set(nodeOf(name), imported)
    for (const path of importsOf(text)) if (path.startsWith('.')) imported.add(nodeOf(join(dirname(name), path)))
    imported.delete(nodeOf(name))
  }
  return graph
}

function reachable(graph: Graph, from: string): Set<string> {
  const seen = new Set<string>()
  const next = [from]
  for (let node = next.pop(); node !== undefined; node = next.pop()) {
    const unseen = [...(graph.get(node) ?? [])].filter((other) => !seen.has(other))
    for (const other of unseen) seen.add(other)
    next.push(...unseen)
  }
  return seen
}

/** Each circle as its nodes: all that reach each other. */
function circlesOf(graph: Graph): string[] {
  const reach = new Map([...graph.keys()].map((node) => [node, reachable(graph, node)]))
  const circles = [...graph.keys()]
    .filter((node) => reach.get(node)?.has(node))
    .map((node) => [...graph.keys()].filter((other) => reach.get(node)?.has(other) && reach.get(other)?.has(node)))
  return [...new Set(circles.map((nodes) => nodes.toSorted().join(' ')))].sort()
}

test('no import circle between files', () => {
  assert.deepEqual(circlesOf(graphOf((file) => file)), [])
})

test('no import circle between files of the dashboard, except what is loaded when it is used', () => {
  const folder = 'dashboard/src/'
  const among = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => ({ name: folder + name, text: readFileSync(folder + name, 'utf8').replaceAll(/\bimport\(/g, '') }))
  assert.ok(among.length > 100)
  assert.deepEqual(circlesOf(graphOf((file) => file, among)), [])
})

// Files directly in src are entry points, each for itself. A folder does not include the folders inside it.
test('no import circle between folders', () => {
  const folderOf = (file: string): string => (dirname(file) === 'src' ? file : dirname(file))
  assert.deepEqual(circlesOf(graphOf(folderOf)), [])
})

test('the protocol knows nothing of the pool that uses it', () => {
  const wrong = files
    .filter(({ name }) => name.startsWith('src/db/protocol/'))
    .flatMap(({ name, text }) => importsOf(text).map((path) => ({ name, path })))
    .filter(({ name, path }) => path.startsWith('.') && join(dirname(name), path).startsWith('src/db/pool/'))
  assert.deepEqual(wrong, [])
})

test('only src/db speaks to PostgreSQL, only src/http serves HTTP', () => {
  // `svc mcp` listens for the browser's return and names the server's host itself.
  const speaksHttp = /^src\/(http|cli\/mcp)\//
  const owners = { pg: /^src\/db\//, 'node:http': speaksHttp, 'node:https': speaksHttp }
  const speaksByType = sources.filter(
    ({ name, text }) => /^src\/features\//.test(name) && importsOf(text).includes('pg'),
  )
  assert.deepEqual(
    speaksByType.map(({ name }) => name),
    [],
    'who has the types of the driver drives it',
  )
  const wrong = sources.flatMap(({ name, text }) =>
    Object.entries(owners)
      .filter(([module, home]) => importsOf(valueImports(text)).includes(module) && !home.test(name))
      .map(([module]) => `${name} → ${module}`),
  )
  assert.deepEqual(wrong, [])
})

/** Types cost nothing and open no sockets. */
const valueImports = (text: string): string => text.replace(/^import type .*$/gm, '')

// Embedded PostgreSQL hands it on to its programs.
test('the environment is read by the configuration and the command line alone', () => {
  const wrong = sources.filter(
    ({ name, text }) => text.includes('process.env') && !/^src\/(config|cli|main|db\/setup\/embedded)\b/.test(name),
  )
  assert.deepEqual(
    wrong.map(({ name }) => name),
    [],
  )
})

test('no file hides behind an empty name, and no type check is switched off', () => {
  const vague = files.filter(({ name }) => /(^|\/)(index|types?|utils?|helpers?|misc|common)(\.ts$|\/)/.test(name))
  const silenced = files.filter(({ text }) => /@ts-(ignore|nocheck|expect-error)|\b(TODO|FIXME|XXX)\b/.test(text))
  assert.deepEqual(
    [...vague, ...silenced].map(({ name }) => name),
    [],
  )
})

test('each migration has a number of its own', () => {
  const names = readdirSync('migrations')
  const numbers = names.map((name) => /^(\d{4})_\w+\.sql$/.exec(name)?.[1])
  assert.deepEqual(
    names.filter((_, i) => numbers[i] === undefined || numbers.indexOf(numbers[i]) !== i),
    [],
  )
})

/** What runs when the file is loaded: no types, and no `import()`. */
const loadedBy = (text: string): string[] =>
  [...text.matchAll(/^(?:import|export) (?!type )(?:[^'";]*? from )?'([^']+)'/gm)].map(([, path = '']) => path)

test('a start loads no library that many servers never use', () => {
  const texts = new Map(files.map(({ name, text }) => [name, text]))
  const loaded = new Set<string>()
  const next = ['src/cli/start.ts']
  for (let file = next.pop(); file !== undefined; file = next.pop()) {
    for (const path of loadedBy(texts.get(file) ?? '')) {
      const name = path.startsWith('.') ? join(dirname(file), path) : path
      if (!loaded.has(name)) next.push(name)
      loaded.add(name)
    }
  }
  assert.ok(loaded.has('src/features/graphql/routes.ts'))
  const unused = ['graphql', 'ws', 'sharp', 'openid-client', '@aws-sdk/client-s3', '@simplewebauthn/server']
  assert.deepEqual(
    unused.filter((name) => loaded.has(name)),
    [],
  )
})
