// src/ → dist/, when something in src/ is newer. `npm run build` and `npm start` both come through here.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { ensureInstalled, root, run } from './install.js'

const stamp = `${root}dist/.built`
const compiler = `${root}node_modules/typescript/bin/tsc`

const sources = () =>
  readdirSync(`${root}src`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(root.length))
    .sort()

function isCurrent(files) {
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== files.join('\n')) return false
  const built = statSync(stamp).mtimeMs
  return [...files, 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].every(
    (file) => statSync(root + file).mtimeMs <= built,
  )
}

export function ensureBuilt() {
  // A release has no sources: what it ships is what it runs.
  if (!existsSync(`${root}src`)) return ensureInstalled({ dev: false })
  const files = sources()
  const current = isCurrent(files)
  ensureInstalled({ dev: !current })
  if (current) return
  const started = new Date()
  // Files whose source is gone must not live on in the build.
  rmSync(`${root}dist`, { recursive: true, force: true })
  run(process.execPath, [compiler, '-p', 'tsconfig.build.json'], 'building (tsc)')
  for (const file of files.filter((name) => !name.endsWith('.ts'))) {
    const target = root + file.replace(/^src/, 'dist')
    mkdirSync(dirname(target), { recursive: true })
    copyFileSync(root + file, target)
  }
  writeFileSync(stamp, files.join('\n'))
  // What was edited while the compiler ran counts as newer.
  utimesSync(stamp, started, started)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) ensureBuilt()
