import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'

/** Plain JavaScript, which runs before anything is installed. */
type ServerBuild = { bundle(outdir: string): Promise<void> }

/** Packages that most processes load: small ones of many files, which load faster as part of the bundle. */
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
 * Entry points of a test run in `outdir`, with the code they share in chunks. A process that loads hundreds of modules
 * takes a second before its first test, and a run has two hundred processes.
 */
export async function bundleTests(root: string, outdir: string, entries: ReadonlyMap<string, string[]>): Promise<void> {
  mkdirSync(outdir, { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(outdir, 'node_modules'))
  await build({
    absWorkingDir: root,
    outdir,
    entryPoints: Object.fromEntries([...entries.keys()].map((name) => [name, `entry:${name}`])),
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    // An optional addon that pg looks for.
    external: ['pg-native'],
    chunkNames: 'chunks/[name]-[hash]',
    sourcemap: true,
    sourcesContent: false,
    legalComments: 'none',
    logLevel: 'warning',
    // Packages in CommonJS call it.
    banner: {
      js: `import { createRequire as svcRequire } from 'node:module'; const require = svcRequire(${here(root)});`,
    },
    plugins: [entriesOf(root, entries), packages, sourceAddresses],
  })
}

const here = (folder: string): string => JSON.stringify(pathToFileURL(join(folder, 'package.json')).href)

const entriesOf = (root: string, entries: ReadonlyMap<string, string[]>): Plugin => ({
  name: 'an entry point is a list of files',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^entry:/ }, ({ path }) => ({ path: path.slice('entry:'.length), namespace: 'entry' }))
    onLoad({ filter: /./, namespace: 'entry' }, ({ path }) => ({
      contents: (entries.get(path) ?? []).map((file) => `import ${JSON.stringify(`./${file}`)}`).join('\n'),
      resolveDir: root,
    }))
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

/** A build of the server with what it needs beside it. Answers its main file. */
export async function bundleServer(root: string, folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true })
  for (const name of ['node_modules', 'migrations', 'package.json']) symlinkSync(join(root, name), join(folder, name))
  const { bundle } = (await import(new URL('../build.js', import.meta.url).href)) as ServerBuild
  await bundle(join(folder, 'dist'))
  return join(folder, 'dist/main.js')
}
