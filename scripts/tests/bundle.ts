import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import type { Batches } from './batches.ts'

/** Types of scripts/build.js, which is plain JavaScript. */
type ServerBuild = { bundle(outdir: string): Promise<void> }

/** Types of scripts/dashboard.js. */
type DashboardBuild = { bundleDashboard(outdir: string): Promise<void> }

/** Replaces `node:test` in bundled files. */
const NODE_TEST = 'scripts/tests/node-test.ts'

type Entries = { batches: Batches; programs: readonly string[] }

/** Small packages of many files that most processes load; they load faster from the bundle. */
const BUNDLED =
  /^(ajv|ajv-formats|croner|graphql|ipaddr\.js|lru-cache|mrmime|pg|pg-connection-string|smol-toml|ws)(\/|$)/

const packages: Plugin = {
  name: 'other packages stay outside',
  setup({ onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path, importer }) => {
      const isPartOfOne = BUNDLED.test(path) || importer.includes('/node_modules/')
      return isPartOfOne || importer === '' ? undefined : { path, external: true }
    })
  },
}

/**
 * Bundles the entry points of a test run into `outdir`, with shared code in chunks. Loading hundreds of modules takes a
 * second per process, and a run has two hundred processes.
 */
export async function bundleTests(root: string, outdir: string, { batches, programs }: Entries): Promise<void> {
  mkdirSync(outdir, { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(outdir, 'node_modules'))
  await build({
    absWorkingDir: root,
    outdir,
    entryPoints: {
      ...Object.fromEntries([...batches.keys()].map((name) => [name, `batch:${name}`])),
      ...Object.fromEntries(programs.map((file) => [file.replace(/\.ts$/, ''), file])),
    },
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    // An optional dependency of pg.
    external: ['pg-native'],
    chunkNames: 'chunks/[name]-[hash]',
    sourcemap: true,
    sourcesContent: false,
    legalComments: 'none',
    logLevel: 'warning',
    // CommonJS packages call `require`.
    banner: {
      js: `import { createRequire as svcRequire } from 'node:module'; const require = svcRequire(${here(root)});`,
    },
    plugins: [batchesIn(root, batches), packages, sourceAddresses],
  })
}

const here = (folder: string): string => JSON.stringify(pathToFileURL(join(folder, 'package.json')).href)

const batchesIn = (root: string, batches: Batches): Plugin => ({
  name: 'files of a batch run one after the other',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^batch:/ }, ({ path }) => ({ path: path.slice('batch:'.length), namespace: 'batch' }))
    onLoad({ filter: /./, namespace: 'batch' }, ({ path }) => {
      const files = (batches.get(path) ?? []).map((file) => `'${file}': () => import('./${file}')`)
      return {
        contents: `import { runFiles } from './${NODE_TEST}'\nawait runFiles({ ${files.join(', ')} })`,
        resolveDir: root,
      }
    })
    onResolve({ filter: /^node:test$/ }, ({ importer }) =>
      /\/(node-test|at-end)\.ts$/.test(importer)
        ? { path: 'node:test', external: true }
        : { path: join(root, NODE_TEST) },
    )
  },
})

const sourceAddresses: Plugin = {
  name: 'import.meta.url is the address of the source, from which files are found',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.url')) return undefined
      return { contents: text.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)), loader: 'ts' }
    })
  },
}

/** Builds the server in `folder` with the files it needs. Returns the path of its main file. */
export async function bundleServer(root: string, folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true })
  for (const name of ['node_modules', 'migrations', 'package.json']) symlinkSync(join(root, name), join(folder, name))
  const { bundle } = (await import(new URL('../build.js', import.meta.url).href)) as ServerBuild
  await bundle(join(folder, 'dist'))
  return join(folder, 'dist/main.js')
}

/** The dashboard as `npm run build` makes it. */
export async function bundleDashboard(root: string, build: string): Promise<string> {
  const outdir = join(build, 'dashboard')
  const dashboard = (await import(pathToFileURL(join(root, 'scripts/dashboard.js')).href)) as DashboardBuild
  await dashboard.bundleDashboard(outdir)
  return outdir
}
