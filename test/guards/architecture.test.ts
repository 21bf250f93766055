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
  features: ['core', 'db', 'http'],
  app: ['core', 'db', 'http', 'features', 'config', 'root'],
  cli: ['core', 'db', 'http', 'features', 'config', 'app', 'root'],
  root: ['core', 'db', 'http', 'features', 'config', 'app', 'cli'],
}

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name: `src/${name}`, text: readFileSync(join('src', name), 'utf8') }))
const sources = files.filter(({ name }) => !name.endsWith('.test.ts'))

/** src/features/auth/mfa/totp.ts → features, auth; src/app.ts → root */
function placeOf(file: string): { layer: string; feature: string } {
  const [, layer = '', feature = ''] = file.split('/')
  if (layer.endsWith('.ts')) return { layer: 'root', feature: '' }
  return { layer, feature: layer === 'features' ? feature : '' }
}

const importsOf = (text: string): string[] =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, path = '']) => path)

test('imports only point downward, and no feature imports another', () => {
  const wrong = sources.flatMap(({ name, text }) => {
    const from = placeOf(name)
    return importsOf(text)
      .filter((path) => path.startsWith('.'))
      .filter((path) => {
        const to = placeOf(join(dirname(name), path))
        return from.layer === to.layer ? from.feature !== to.feature : !mayImport[from.layer]?.includes(to.layer)
      })
      .map((path) => `${name} → ${path}`)
  })
  assert.deepEqual(wrong, [])
})

test('ways in and second factors do not know each other', () => {
  const sides = [
    ['src/features/auth/sign-in/', 'src/features/auth/mfa/'],
    ['src/features/auth/mfa/', 'src/features/auth/sign-in/'],
  ] as const
  const wrong = sides.flatMap(([from, to]) =>
    files
      .filter(({ name }) => name.startsWith(from))
      .flatMap(({ name, text }) => importsOf(text).map((path) => ({ name, path })))
      .filter(({ name, path }) => path.startsWith('.') && join(dirname(name), path).startsWith(to))
      .map(({ name, path }) => `${name} → ${path}`),
  )
  assert.deepEqual(wrong, [])
})

test('only src/db speaks to PostgreSQL, only src/http serves HTTP', () => {
  const owners = { pg: /^src\/db\//, 'node:http': /^src\/http\//, 'node:https': /^src\/http\// }
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
