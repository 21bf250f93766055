#!/usr/bin/env node
/**
 * dist/main.js: the first file of a build. It runs the rest, server.cjs, from the code that V8 made of it in an earlier
 * start (docs/decisions/build-and-start.md).
 */
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import type { run } from './cli/run.ts'

type Bundle = { run: typeof run }

const file = fileURLToPath(new URL('server.cjs', import.meta.url))
// Beside the build: whoever may write there could change the code itself.
const keptFile = `${file}.compiled`
const DIGEST_BYTES = 32
/** As Node wraps a file that is CommonJS. */
const BEFORE = Buffer.from('(function (exports, require, module, __filename, __dirname) { ')
const AFTER = Buffer.from('\n})')

/** Holds on to nothing, neither the text nor the code. */
const nothing = (): void => {}

const require = createRequire(import.meta.url)
// Node maps the lines of modules it loads itself, and not those of a Script.
const { bundle, keep } = process.sourceMapsEnabled ? { bundle: require(file) as Bundle, keep: nothing } : load()
process.exitCode = await bundle.run(process.argv.slice(2), keep)

function load(): { bundle: Bundle; keep: () => void } {
  const text = readFileSync(file)
  const cachedData = keptCode(text)
  // One byte per character: the bundler writes strings in ASCII, and only comments hold anything else.
  const script = new Script(Buffer.concat([BEFORE, text, AFTER]).toString('latin1'), {
    filename: file,
    ...(cachedData && { cachedData }),
  })
  const made = { exports: {} }
  script.runInThisContext()(made.exports, require, made, file, fileURLToPath(new URL('.', import.meta.url)))
  const isKept = cachedData !== undefined && script.cachedDataRejected === false
  return { bundle: made.exports as Bundle, keep: isKept ? nothing : () => keepCode(text, script.createCachedData()) }
}

/** V8 compares no more of the source than its length, and runs into code that is damaged. */
function digestOf(text: Buffer, code: Buffer): Buffer {
  return createHash('sha256').update(text).update(code).digest()
}

function keptCode(text: Buffer): Buffer | undefined {
  try {
    const kept = readFileSync(keptFile)
    const code = kept.subarray(DIGEST_BYTES)
    return digestOf(text, code).equals(kept.subarray(0, DIGEST_BYTES)) ? code : undefined
  } catch {
    return undefined // none yet
  }
}

/** Whole or not at all, whoever else is writing it. Where the build cannot be written to, every start compiles. */
function keepCode(text: Buffer, code: Buffer): void {
  try {
    const own = `${keptFile}.${process.pid}`
    writeFileSync(own, Buffer.concat([digestOf(text, code), code]))
    renameSync(own, keptFile)
  } catch {
    // read-only
  }
}
