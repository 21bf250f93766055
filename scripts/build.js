// src/ → dist/, when something in src/ is newer. `npm run build` and `npm start` both come through here.
import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { ensureInstalled, fail, root, say } from './install.js'

const stamp = `${root}dist/.built`

const sources = () =>
  readdirSync(`${root}src`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(root.length))
    .sort()

function isCurrent(files) {
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== files.join('\n')) return false
  const built = statSync(stamp).mtimeMs
  return [...files, 'scripts/build.js', 'package-lock.json'].every((file) => statSync(root + file).mtimeMs <= built)
}

/** Packages that a start does not need and that are faster to load as one file, which they become. */
const LATER = ['graphql', 'ws']

/** One file, because opening and linking hundreds takes longer than running them. */
const packages = {
  name: 'packages that a start does not need stay outside',
  setup: (build) =>
    build.onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      if (kind === 'dynamic-import') return { path, external: true }
      return LATER.includes(path) && kind !== 'entry-point' ? { path: `./${path}.cjs`, external: true } : undefined
    }),
}

/** Scripts of pages for people take the place of the module that bundles them for a server that runs from sources. */
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

/** src/pages/<name>.ts and what it imports, as the text of one inline script. */
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
    // Used by `node --enable-source-maps`; without the sources, which are not far.
    sourcemap: true,
    sourcesContent: false,
    // An optional addon that pg looks for.
    external: ['pg-native'],
    plugins: [packages, pages],
    define: {
      // pg makes a Response to learn whether it is at Cloudflare; on Node 20, which has no navigator to ask, that loads
      // all of fetch: 9 MB and 30 ms in a bare process.
      navigator: '{"userAgent":"Node.js"}',
      // graphql looks for a second copy of itself at every look at a type, except in production; with long lists that is most of its time.
      'process.env.NODE_ENV': '"production"',
      'import.meta.url': 'svcUrl',
    },
    // Strict, as the modules are that it is made of.
    banner: {
      js: "'use strict'; const svcUrl = require('node:url').pathToFileURL(__filename).href, svcImport = require('./import.cjs');",
    },
  })
  importElsewhere(outdir)
}

/** Code that V8 compiled in another process has no `import()`. A file of its own, which is not kept, has it. */
function importElsewhere(outdir) {
  const file = `${outdir}/server.cjs`
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace(/\bimport\((?=")/g, 'svcImport('))
  writeFileSync(`${outdir}/import.cjs`, 'module.exports = (name) => import(name)\n')
}

export async function ensureBuilt() {
  // A release has no sources: what it ships is what it runs.
  if (!existsSync(`${root}src`)) return ensureInstalled({ dev: false })
  const files = sources()
  const current = isCurrent(files)
  ensureInstalled({ dev: !current })
  if (current) return
  const started = new Date()
  // Files whose source is gone must not live on in the build.
  rmSync(`${root}dist`, { recursive: true, force: true })
  say('building …')
  await bundle(`${root}dist`).catch((error) => fail(`building: ${error.message}`))
  writeFileSync(stamp, files.join('\n'))
  // What was edited while the bundler ran counts as newer.
  utimesSync(stamp, started, started)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await ensureBuilt()
