import { Worker } from 'node:worker_threads'
import type { CompressionMethod } from './compression.ts'

/** Where in a chunk the checksum of a file begins, or ends. */
export type Cut = { at: number; does: 'begin' | 'end' }
type Pressed = { bytes: Buffer; method: CompressionMethod; sums: string[]; release: () => void }

type Answer = { slot: number } & (
  | { kind: 'pressed'; length: number; method: CompressionMethod }
  | { kind: 'summed'; sums: string[] }
  | { kind: 'failed'; failure: string }
)
type Waiting = {
  resolve: (pressed: Pressed) => void
  reject: (error: Error) => void
  pressed?: { length: number; method: CompressionMethod }
  sums?: string[]
}

// Source text instead of a file, because TypeScript loaders do not work in worker threads on Node 20.
// On Linux the nice value applies to the calling thread, so only this worker yields to requests; elsewhere it would slow
// the whole process. Results go back in shared memory, so that nothing is left to a collector: what they were made in is given
// back, but for the memory that small buffers share, which has 64 KiB and cannot be given away.
const source = `
const { MessageChannel, parentPort, workerData } = require('node:worker_threads')
const { createHash } = require('node:crypto')
const { gzipSync, zstdCompressSync } = require('node:zlib')
if (process.platform === 'linux') require('node:os').setPriority(0, workerData.nice)
const [given, made] = workerData.memory.map((slots) => slots.map((memory) => Buffer.from(memory)))
const { port1: nowhere, port2 } = new MessageChannel()
port2.close()
let hash
const sumsOf = (bytes, cuts) => {
  const sums = []
  let from = 0
  for (const { at, does } of cuts) {
    hash?.update(bytes.subarray(from, at))
    if (does === 'end') sums.push(hash.digest('hex'))
    hash = does === 'begin' ? createHash('sha256') : undefined
    from = at
  }
  hash?.update(bytes.subarray(from))
  return sums
}
const method = zstdCompressSync ? 'zstd' : 'gzip'
const press = (bytes, place) => {
  const options = { level: 1, chunkSize: bytes.length + 4096 }
  const pressed = zstdCompressSync ? zstdCompressSync(bytes) : gzipSync(bytes, options)
  const isSmaller = pressed.length < bytes.length
  const length = (isSmaller ? pressed : bytes).copy(place)
  if (pressed.buffer.byteLength > 2 ** 17) nowhere.postMessage(null, [pressed.buffer])
  return { kind: 'pressed', length, method: isSmaller ? method : 'none' }
}
parentPort.on('message', ({ slot, length, cuts }) => {
  try {
    const bytes = given[slot].subarray(0, length)
    const answer = cuts ? { kind: 'summed', sums: sumsOf(bytes, cuts) } : press(bytes, made[slot])
    parentPort.postMessage({ slot, ...answer })
  } catch (error) {
    parentPort.postMessage({ slot, kind: 'failed', failure: error.message })
  }
})
`

/** Enough that writes come first, and not so much that a busy server never ends its backup. */
const NICE = 10

/**
 * Compresses chunks on two threads and sums up the files in them on another, all of low priority: a gigabyte takes more than ten
 * seconds of a processor, which requests would wait for.
 */
export class ChunkWorker {
  /** They take turns. */
  readonly #pressers: Worker[]
  readonly #summer: Worker
  readonly #given: Buffer[]
  readonly #made: Buffer[]
  readonly #free: number[]
  readonly #waiting = new Map<number, Waiting>()
  #failure: Error | undefined
  #turn = 0

  /** So many chunks at a time, of so many bytes at most. */
  constructor(count: number, bytes: number) {
    const slots = (): SharedArrayBuffer[] => Array.from({ length: count }, () => new SharedArrayBuffer(bytes))
    const memory = [slots(), slots()] as const
    this.#given = memory[0].map((one) => Buffer.from(one))
    this.#made = memory[1].map((one) => Buffer.from(one))
    this.#free = [...this.#given.keys()]
    this.#pressers = [this.#start(memory), this.#start(memory)]
    this.#summer = this.#start(memory)
  }

  /** Chunks in their order, for the checksums. Its place is free again when the result was released. */
  press(chunk: Buffer, cuts: readonly Cut[]): Promise<Pressed> {
    const slot = this.#free.pop()
    if (this.#failure || slot === undefined)
      return Promise.reject(this.#failure ?? new Error('more chunks than places'))
    chunk.copy(this.#given[slot] as Buffer)
    return new Promise((resolve, reject) => {
      this.#waiting.set(slot, { resolve, reject })
      this.#pressers[this.#turn++ % this.#pressers.length]?.postMessage({ slot, length: chunk.length })
      this.#summer.postMessage({ slot, length: chunk.length, cuts })
    })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pressers, this.#summer].map((worker) => worker.terminate()))
  }

  #start(memory: readonly SharedArrayBuffer[][]): Worker {
    const worker = new Worker(source, {
      eval: true,
      workerData: { memory, nice: NICE },
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
    })
    worker.on('message', (answer: Answer) => this.#onAnswer(answer))
    worker.on('error', (error) => this.#fail(error))
    worker.on('exit', () => this.#fail(new Error('a thread of the backup has ended')))
    return worker
  }

  #onAnswer(answer: Answer): void {
    const { slot } = answer
    const waiting = this.#waiting.get(slot)
    if (!waiting) return
    if (answer.kind === 'failed') {
      this.#fail(new Error(answer.failure))
      return
    }
    if (answer.kind === 'pressed') waiting.pressed = answer
    else waiting.sums = answer.sums
    const { pressed, sums, resolve } = waiting
    if (!pressed || !sums) return
    this.#waiting.delete(slot)
    const bytes = (this.#made[slot] as Buffer).subarray(0, pressed.length)
    resolve({ bytes, method: pressed.method, sums, release: () => void this.#free.push(slot) })
  }

  #fail(error: Error): void {
    this.#failure ??= error
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
