// Builds dist/ from src/, client/src/ and dashboard/src/ when they are newer. Used by `npm run build` and `npm start`.
import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { bundleDashboard } from './dashboard.js'
import { errorReferencePlugin } from './error-reference.js'
import { ensureInstalled, fail, log, root } from './install.js'

const stamp = `${root}dist/.built`

const sources = () =>
  ['src', 'client/src', 'dashboard/src']
    .flatMap((folder) => readdirSync(root + folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(root.length))
    .sort()

function isCurrent(files) {
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== files.join('\n')) return false
  const built = statSync(stamp).mtimeMs
  const others = ['scripts/build.js', 'scripts/dashboard.js', 'docs/errors.md', 'package-lock.json']
  return [...files, ...others].every((file) => statSync(root + file).mtimeMs <= built)
}

/** Packages that a start does not need; each is bundled into one file, which loads faster. */
const LATER = ['graphql', 'ws']

/** Everything else becomes one file, because opening and linking hundreds takes longer than running them. */
const packages = {
  name: 'packages that a start does not need stay outside',
  setup: (build) =>
    build.onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      if (kind === 'dynamic-import') return { path, external: true }
      return LATER.includes(path) && kind !== 'entry-point' ? { path: `./${path}.cjs`, external: true } : undefined
    }),
}

/** Replaces the module that bundles page scripts at run time with the bundled scripts. */
const pages = {
  name: 'scripts of pages',
  setup: (build) =>
    build.onLoad({ filter: /[\\/]http[\\/]html[\\/]page-script\.ts$/ }, async () => {
      const names = readdirSync(`${root}src/pages`).flatMap((file) => /^(.+)\.ts$/.exec(file)?.[1] ?? [])
      const scripts = await Promise.all(names.map(async (name) => [name, await bundlePage(name)]))
      const texts = JSON.stringify(Object.fromEntries(scripts))
      return { contents: `const scripts = ${texts}; export const pageScript = (name) => scripts[name]` }
    }),
}

/** Bundles src/pages/<name>.ts into the text of one inline script. */
export async function bundlePage(name) {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [`src/pages/${name}.ts`],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [errorReferencePlugin],
  })
  return outputFiles[0].text.trim()
}

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node20.19',
  legalComments: 'none',
  logLevel: 'warning',
}

/** main.js, which runs server.cjs; see src/built.ts. */
export async function bundle(outdir) {
  const { build } = await import('esbuild')
  await build({ ...common, outdir, entryPoints: { main: 'src/built.ts' }, format: 'esm' })
  await build({
    ...common,
    outdir,
    entryPoints: { server: 'src/cli/run.ts', ...Object.fromEntries(LATER.map((name) => [name, name])) },
    format: 'cjs',
    outExtension: { '.js': '.cjs' },
    // The text stays in memory. Names stay, so that stack traces can be read.
    minifyWhitespace: true,
    lineLimit: 120,
    // For `node --enable-source-maps`; without the sources, which are in src/.
    sourcemap: true,
    sourcesContent: false,
    // An optional addon that pg looks for.
    external: ['pg-native'],
    plugins: [packages, pages],
    define: {
      // Without a navigator (Node 20) pg creates a Response to detect Cloudflare, which loads all of fetch: 9 MB and 30 ms.
      navigator: '{"userAgent":"Node.js"}',
      // Except in production, graphql checks every type for a second copy of itself, which takes most of its time on long lists.
      'process.env.NODE_ENV': '"production"',
      'import.meta.url': 'svcUrl',
    },
    // Strict, as ES modules are.
    banner: {
      js: "'use strict'; const svcUrl = require('node:url').pathToFileURL(__filename).href, svcImport = require('./import.cjs');",
    },
  })
  importElsewhere(outdir)
}

/** Moves `import()` to a file that is not cached, because it does not work in code from V8's cache. */
function importElsewhere(outdir) {
  const file = `${outdir}/server.cjs`
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace(/\bimport\((?=")/g, 'svcImport('))
  writeFileSync(`${outdir}/import.cjs`, 'module.exports = (name) => import(name)\n')
}

export async function ensureBuilt() {
  // A release has no sources and is already built.
  if (!existsSync(`${root}src`)) return ensureInstalled({ dev: false })
  const files = sources()
  const current = isCurrent(files)
  ensureInstalled({ dev: !current })
  if (current) return
  const started = new Date()
  // Removes outputs of deleted sources.
  rmSync(`${root}dist`, { recursive: true, force: true })
  log('building …')
  const parts = [bundle(`${root}dist`), bundleDashboard(`${root}dist/dashboard`)]
  await Promise.all(parts).catch((error) => fail(`building: ${error.message}`))
  writeFileSync(stamp, files.join('\n'))
  // Files edited during the build count as newer.
  utimesSync(stamp, started, started)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await ensureBuilt()
