#!/usr/bin/env node
/**
 * dist/main.js, the entry point of a build. It runs server.cjs from V8's code cache of an earlier
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
// Beside the build, so that write access to the cache implies write access to the code.
const keptFile = `${file}.compiled`
const DIGEST_BYTES = 32
/** Node's CommonJS wrapper. */
const BEFORE = Buffer.from('(function (exports, require, module, __filename, __dirname) { ')
const AFTER = Buffer.from('\n})')

/** A constant, because a closure would keep the source text in memory. */
const nothing = (): void => {}

const require = createRequire(import.meta.url)
// Node applies source maps to modules but not to a Script.
const { bundle, keep } = process.sourceMapsEnabled ? { bundle: require(file) as Bundle, keep: nothing } : load()
process.exitCode = await bundle.run(process.argv.slice(2), keep)

function load(): { bundle: Bundle; keep: () => void } {
  const text = readFileSync(file)
  const cachedData = keptCode(text)
  // latin1 takes one byte per character. The bundler writes strings in ASCII; only comments contain other characters.
  const script = new Script(Buffer.concat([BEFORE, text, AFTER]).toString('latin1'), {
    filename: file,
    ...(cachedData && { cachedData }),
  })
  const made = { exports: {} }
  script.runInThisContext()(made.exports, require, made, file, fileURLToPath(new URL('.', import.meta.url)))
  const isKept = cachedData !== undefined && script.cachedDataRejected === false
  return { bundle: made.exports as Bundle, keep: isKept ? nothing : () => keepCode(text, script.createCachedData()) }
}

/** Needed because V8 checks only the length of the source, and runs damaged code. */
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

/** Renames a temporary file, because several processes may write at once. In a read-only build every start compiles. */
function keepCode(text: Buffer, code: Buffer): void {
  try {
    const own = `${keptFile}.${process.pid}`
    writeFileSync(own, Buffer.concat([digestOf(text, code), code]))
    renameSync(own, keptFile)
  } catch {
    // read-only
  }
}
