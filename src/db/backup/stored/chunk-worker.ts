import { Worker } from 'node:worker_threads'
import { type CompressionMethod, QUICK_BROTLI } from './compression.ts'

/** Where in a chunk the checksum of a file begins, or ends. */
export type Cut = { at: number; does: 'begin' | 'end' }
type Pressed = { bytes: Buffer; method: CompressionMethod; sums: string[]; release: () => void }

type Answer =
  | { slot: number; length: number; method: CompressionMethod; sums: string[] }
  | { slot: number; failure: string }
type Waiting = { resolve: (pressed: Pressed) => void; reject: (error: Error) => void }

// Source text instead of a file, because TypeScript loaders do not work in worker threads on Node 20.
// On Linux the nice value applies to the calling thread, so only this worker yields to requests; elsewhere it would slow
// the whole process. Results go back in shared memory, so that nothing is left to a collector: what they were made in is given
// back, but for the memory that small buffers share, which has 64 KiB and cannot be given away.
const source = `
const { MessageChannel, parentPort, workerData } = require('node:worker_threads')
const { createHash } = require('node:crypto')
const { brotliCompressSync, constants, zstdCompressSync } = require('node:zlib')
const { memory, nice, restMs, summedAtOnce, brotli } = workerData
if (process.platform === 'linux') require('node:os').setPriority(0, nice)
const [given, made] = memory.map((slots) => slots.map((one) => Buffer.from(one)))
const { port1: nowhere, port2 } = new MessageChannel()
port2.close()
const never = new Int32Array(new SharedArrayBuffer(4))
const rest = () => Atomics.wait(never, 0, 0, restMs)
let hash
const sum = (bytes) => {
  if (!hash) return
  for (let at = 0; at < bytes.length; at += summedAtOnce) {
    hash.update(bytes.subarray(at, at + summedAtOnce))
    rest()
  }
}
const sumsOf = (bytes, cuts) => {
  const sums = []
  let from = 0
  for (const { at, does } of cuts) {
    sum(bytes.subarray(from, at))
    if (does === 'end') sums.push(hash.digest('hex'))
    hash = does === 'begin' ? createHash('sha256') : undefined
    from = at
  }
  sum(bytes.subarray(from))
  return sums
}
const press = (bytes, place) => {
  const chunkSize = bytes.length + 4096
  const pressed = zstdCompressSync
    ? zstdCompressSync(bytes)
    : brotliCompressSync(bytes, { chunkSize, params: brotli })
  const isSmaller = pressed.length < bytes.length
  const length = (isSmaller ? pressed : bytes).copy(place)
  if (pressed.buffer.byteLength > 2 ** 17) nowhere.postMessage(null, [pressed.buffer])
  rest()
  return { length, method: isSmaller ? (zstdCompressSync ? 'zstd' : 'brotli') : 'none' }
}
parentPort.on('message', ({ slot, length, cuts }) => {
  try {
    const bytes = given[slot].subarray(0, length)
    const sums = sumsOf(bytes, cuts)
    parentPort.postMessage({ slot, sums, ...press(bytes, made[slot]) })
  } catch (error) {
    parentPort.postMessage({ slot, failure: error.message })
  }
})
`

/** Enough that writes come first, and not so much that a busy server never ends its backup. */
const NICE = 10
/**
 * A thread that never waits keeps its processor from those queued behind it for tens of milliseconds, whatever its priority: Linux
 * compares priorities only inside a session or a service, and PostgreSQL has its own. So it works for a millisecond or two, then waits.
 */
const REST_MS = 0.1
const SUMMED_AT_ONCE = 2 ** 17

/**
 * Compresses chunks and sums up the files in them on one thread of low priority: a gigabyte takes ten seconds of a processor,
 * which requests would wait for.
 */
export class ChunkWorker {
  readonly #worker: Worker
  readonly #online: Promise<void>
  readonly #given: Buffer[]
  readonly #made: Buffer[]
  readonly #free: number[]
  readonly #waiting = new Map<number, Waiting>()
  #failure: Error | undefined

  /** So many chunks at a time, of so many bytes at most. */
  constructor(count: number, bytes: number) {
    const slots = (): SharedArrayBuffer[] => Array.from({ length: count }, () => new SharedArrayBuffer(bytes))
    const memory = [slots(), slots()] as const
    this.#given = memory[0].map((one) => Buffer.from(one))
    this.#made = memory[1].map((one) => Buffer.from(one))
    this.#free = [...this.#given.keys()]
    this.#worker = new Worker(source, {
      eval: true,
      workerData: { memory, nice: NICE, restMs: REST_MS, summedAtOnce: SUMMED_AT_ONCE, brotli: QUICK_BROTLI },
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
    })
    this.#worker.on('message', (answer: Answer) => this.#onAnswer(answer))
    this.#worker.on('error', (error) => this.#fail(error))
    this.#worker.on('exit', () => this.#fail(new Error('a thread of the backup has ended')))
    this.#online = new Promise((resolve) => {
      for (const event of ['online', 'exit'] as const) this.#worker.once(event, () => resolve())
    })
  }

  /** A thread takes tens of milliseconds of a processor to start, at the priority of the process. */
  started(): Promise<void> {
    return this.#online
  }

  /** Chunks in their order, for the checksums. Its place is free again when the result was released. */
  press(chunk: Buffer, cuts: readonly Cut[]): Promise<Pressed> {
    const slot = this.#free.pop()
    if (this.#failure || slot === undefined)
      return Promise.reject(this.#failure ?? new Error('more chunks than places'))
    chunk.copy(this.#given[slot] as Buffer)
    return new Promise((resolve, reject) => {
      this.#waiting.set(slot, { resolve, reject })
      this.#worker.postMessage({ slot, length: chunk.length, cuts })
    })
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #onAnswer(answer: Answer): void {
    if ('failure' in answer) {
      this.#fail(new Error(answer.failure))
      return
    }
    const { slot, length, method, sums } = answer
    const waiting = this.#waiting.get(slot)
    if (!waiting) return
    this.#waiting.delete(slot)
    const bytes = (this.#made[slot] as Buffer).subarray(0, length)
    waiting.resolve({ bytes, method, sums, release: () => void this.#free.push(slot) })
  }

  #fail(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
