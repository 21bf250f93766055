#!/usr/bin/env node
/**
 * dist/main.js, the entry point of a build. It runs server.cjs from V8's code cache of an earlier
 * start (docs/decisions/build-and-start.md).
 */
import { appendFileSync, closeSync, fstatSync, openSync, readSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import { crc32 } from 'node:zlib'
import type { run } from './cli/run.ts'

type Bundle = { run: typeof run }

const file = fileURLToPath(new URL('server.cjs', import.meta.url))
// Beside the build, so that write access to the cache implies write access to the code.
const keptFile = `${file}.compiled`
const CHECKSUM_BYTES = 4
/** Node's CommonJS wrapper. */
const BEFORE = Buffer.from('(function (exports, require, module, __filename, __dirname) { ')
const AFTER = Buffer.from('\n})')
const NONE = Buffer.alloc(0)

/** A constant, because a closure would keep the source text in memory. */
const nothing = (): void => {}

const require = createRequire(import.meta.url)
// Node applies source maps to modules but not to a Script.
const { bundle, keep } = process.sourceMapsEnabled ? { bundle: require(file) as Bundle, keep: nothing } : load()
process.exitCode = await bundle.run(process.argv.slice(2), keep)

function load(): { bundle: Bundle; keep: () => void } {
  const source = readReleasable(file, BEFORE, AFTER)
  const checksum = crc32(source.bytes)
  const kept = keptCode(checksum)
  // latin1 takes one byte per character. The bundler writes strings in ASCII; only comments contain other characters.
  const script = new Script(source.bytes.toString('latin1'), {
    filename: file,
    ...(kept && { cachedData: kept.code }),
  })
  source.release()
  kept?.release()
  const made = { exports: {} }
  script.runInThisContext()(made.exports, require, made, file, fileURLToPath(new URL('.', import.meta.url)))
  const isKept = kept !== undefined && script.cachedDataRejected === false
  return { bundle: made.exports as Bundle, keep: isKept ? nothing : () => keepCode(checksum, script) }
}

/** A file in memory that can be given back at once: an idle server may not collect its garbage for long. */
function readReleasable(path: string, before = NONE, after = NONE): { bytes: Buffer; release: () => void } {
  const descriptor = openSync(path, 'r')
  try {
    const { size } = fstatSync(descriptor)
    const length = before.length + size + after.length
    const memory = new ArrayBuffer(length, { maxByteLength: length })
    const bytes = Buffer.from(memory)
    bytes.set(before)
    readSync(descriptor, bytes, before.length, size, 0)
    bytes.set(after, before.length + size)
    return { bytes, release: () => memory.resize(0) }
  } finally {
    closeSync(descriptor)
  }
}

/** Needed because V8 checks only the length of the source, and runs damaged code. SHA-256 of both takes 26 ms, this 3.5. */
function checksumOf(source: number, code: Buffer): number {
  return crc32(code, source)
}

function keptCode(source: number): { code: Buffer; release: () => void } | undefined {
  try {
    const { bytes, release } = readReleasable(keptFile)
    const code = bytes.subarray(CHECKSUM_BYTES)
    return checksumOf(source, code) === bytes.readUInt32LE() ? { code, release } : undefined
  } catch {
    return undefined // none yet
  }
}

/** Renames a temporary file, because several processes may write at once. In a read-only build every start compiles. */
function keepCode(source: number, script: Script): void {
  try {
    const own = `${keptFile}.${process.pid}`
    writeFileSync(own, '') // first, because the code takes megabytes and milliseconds
    const code = script.createCachedData()
    const checksum = Buffer.alloc(CHECKSUM_BYTES)
    checksum.writeUInt32LE(checksumOf(source, code))
    writeFileSync(own, checksum)
    appendFileSync(own, code)
    renameSync(own, keptFile)
  } catch {
    // read-only
  }
}
