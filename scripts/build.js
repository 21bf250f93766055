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

/**
 * What a start needs becomes few files, because opening and linking hundreds takes longer than running them. Packages
 * that are imported when first used stay packages.
 */
const lazyPackagesStayOutside = {
  name: 'lazy packages stay outside',
  setup: (build) =>
    build.onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      kind === 'dynamic-import' ? { path, external: true } : undefined,
    ),
}

async function bundle() {
  const { build } = await import('esbuild')
  await build({
    absWorkingDir: root,
    entryPoints: ['src/main.ts'],
    outdir: 'dist',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    // Used by `node --enable-source-maps`; without the sources, which are not far.
    sourcemap: true,
    sourcesContent: false,
    legalComments: 'none',
    // An optional addon that pg looks for.
    external: ['pg-native'],
    // pg makes a Response to learn whether it is at Cloudflare; on Node 20, which has no navigator to ask, that loads
    // all of fetch: 9 MB and 30 ms in a bare process.
    // graphql looks for a second copy of itself at every look at a type, except in production: that is half of its time.
    define: { navigator: '{"userAgent":"Node.js"}', 'process.env.NODE_ENV': '"production"' },
    plugins: [lazyPackagesStayOutside],
    // Packages that are CommonJS call it.
    banner: {
      js: "import { createRequire as svcRequire } from 'node:module'; const require = svcRequire(import.meta.url);",
    },
    logLevel: 'warning',
  })
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
  await bundle().catch((error) => fail(`building: ${error.message}`))
  writeFileSync(stamp, files.join('\n'))
  // What was edited while the bundler ran counts as newer.
  utimesSync(stamp, started, started)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await ensureBuilt()
