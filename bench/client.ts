/**
 * npm run bench client
 * Sizes of our client's entries beside those of other systems, minified and gzipped in the same way, fetched on the day; and how
 * long the compiler takes over an application with 300 tables.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ENTRIES, sizeOf } from '../client/test/sizes.ts'
import { median } from './kit/report.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const OTHERS = {
  '@supabase/supabase-js': 'createClient',
  pocketbase: 'default',
  appwrite: 'Client, Account, TablesDB, Storage, Functions, Realtime',
}
const TABLES = 300
const ROUNDS = 5

const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`

function fetchOthers(): string {
  const folder = join(root, '.cache/other-clients')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{}')
  const names = Object.keys(OTHERS).map((name) => `${name}@latest`)
  const { status, stderr } = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...names], {
    cwd: folder,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(stderr)
  return folder
}

async function sizes(): Promise<void> {
  console.log('minified and gzipped:')
  for (const [name, code] of Object.entries(ENTRIES)) {
    console.log(`  ${kilobytes(await sizeOf(code, join(root, 'client/src')))}  savanna-client: ${name}`)
  }
  const folder = fetchOthers()
  for (const [name, exports] of Object.entries(OTHERS)) {
    const code = `export { ${exports} } from '${name}'`
    console.log(`  ${kilobytes(await sizeOf(code, folder))}  ${name}`)
  }
}

/** 300 tables of ten columns; each refers to the three before it. */
function largeDatabase(): string {
  const tables = Array.from({ length: TABLES }, (_, t) => {
    const columns = Array.from({ length: 8 }, (_, c) => `c${c}: string | null`).join('; ')
    const relations = [1, 2, 3].flatMap((back) =>
      t >= back ? [`t${t - back}: { table: 't${t - back}'; many: false }`] : [],
    )
    const row = `id: number | bigint; n: number; ${columns}`
    return `    t${t}: {
      Row: { ${row} }
      Insert: { n: number; ${columns.replaceAll(':', '?:')} }
      Update: { n?: number; ${columns.replaceAll(':', '?:')} }
      Key: number | bigint
      Unique: 'id'
      Relations: { ${relations.join('; ')} }
    }`
  })
  return `export interface Database {\n  tables: {\n${tables.join('\n')}\n  }\n  enums: {}\n  functions: {}\n}\n`
}

const application = (): string =>
  `import { createClient, where } from 'savanna-client'
import type { Database } from './database.ts'
const svc = createClient<Database>('http://localhost')
${Array.from(
  { length: TABLES - 3 },
  (_, i) => `
export async function use${i}() {
  const rows = svc.from('t${i + 3}')
  const { items } = await rows.list({ filter: { n: { gt: 1 }, t${i + 2}: { c0: 'x' } }, fields: ['id', 'n'], expand: ['t${i + 2}'], sort: '-n' })
  await rows.create({ n: Number(items[0]?.expand.t${i + 2}?.n) })
  await rows.update(1, { c1: 'y' })
  return rows.first({ filter: where\`n = \${1}\` })
}`,
).join('')}
`

function compileTimes(): void {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-types-'))
  try {
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
    writeFileSync(join(folder, 'database.ts'), largeDatabase())
    writeFileSync(join(folder, 'app.ts'), application())
    const config = {
      extends: join(root, 'examples/tsconfig.json'),
      compilerOptions: { paths: { 'savanna-client': [join(root, 'client/src/main.ts')] } },
      include: ['.'],
    }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const seconds = Array.from({ length: ROUNDS }, () => {
      const began = performance.now()
      const { status, stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', folder], { encoding: 'utf8' })
      if (status !== 0) throw new Error(stdout)
      return (performance.now() - began) / 1000
    })
    console.log(`tsc over ${TABLES} tables, each used: ${median(seconds).toFixed(1)} s (at most 3)`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

await sizes()
compileTimes()
