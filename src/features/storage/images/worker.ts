import { type ChildProcess, spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import type { Readable } from 'node:stream'
import { AppError, serverBusy } from '../../../core/errors.ts'
import { type Transform, tooLarge } from './parameters.ts'
import type { ImageKind } from './signature.ts'
import { IMAGE_WORKER } from './worker-source.ts'

export type ImageJob = Transform & { kind: ImageKind; bytes: number }
export type MadeImage = { format: string; data: Buffer }

const TIMEOUT_MS = 10_000
/** A process is replaced now and then: what the library keeps, and what a hostile image did to it, goes with it. */
const MAX_JOBS = 500

const broken = (): AppError => new AppError('unprocessable', 'not an image, or a broken one')

export const noSharp = (): AppError =>
  new AppError('not_implemented', 'images need the npm package sharp, which is not installed here')

/** Where the library is; undefined if it is not installed. */
export function findSharp(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve('sharp')
  } catch {
    return undefined
  }
}

/** One child process, with one image at a time. It is killed when that takes too long or too much memory. */
export class ImageWorker {
  readonly #library: string
  #child: ChildProcess | undefined
  #jobs = 0

  constructor(library: string) {
    this.#library = library
  }

  async run(job: ImageJob, source: Readable): Promise<MadeImage> {
    if (++this.#jobs % MAX_JOBS === 0) this.stop()
    const child = this.#child ?? this.#start()
    this.#child = child
    try {
      return await converse(child, job, source)
    } catch (error) {
      // After a refusal it is as good as before.
      if (!(error instanceof AppError && (error.status === 422 || error.status === 413)) || error.cause !== undefined)
        this.stop()
      throw error
    } finally {
      source.destroy()
    }
  }

  #start(): ChildProcess {
    const flags = ['--max-old-space-size=256', '--input-type=commonjs', '-e', IMAGE_WORKER, this.#library]
    const child = spawn(process.execPath, flags, { env: {}, cwd: tmpdir(), stdio: ['pipe', 'pipe', 'ignore'] })
    child.unref()
    child.stdin?.on('error', () => {}) // `exit` follows
    child.once('exit', () => {
      if (this.#child === child) this.#child = undefined
    })
    return child
  }

  stop(): void {
    this.#child?.kill('SIGKILL')
    this.#child = undefined
  }
}

type Head = { bytes: number; format?: string; refusal?: string }

function converse(child: ChildProcess, job: ImageJob, source: Readable): Promise<MadeImage> {
  const { stdin, stdout } = child
  if (!stdin || !stdout) throw new Error('an image process without pipes')
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0)
    const pieces: Buffer[] = []
    let head: Head | undefined
    let awaited = 0
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      stdout.off('data', onData)
      child.off('exit', onExit).off('error', onExit)
      source.off('error', onSource)
      settle()
    }
    /** It was killed, by us or by its own limit, or it crashed: the image is to blame. */
    const onExit = (code: unknown): void => end(() => reject(code === 9 ? withCause(tooLarge()) : withCause(broken())))
    const onSource = (error: Error): void => end(() => reject(error))
    const onData = (piece: Buffer): void => {
      if (!head) {
        received = Buffer.concat([received, piece])
        const length = received.length < 4 ? Number.POSITIVE_INFINITY : received.readUInt32BE(0)
        if (received.length < 4 + length) return
        head = JSON.parse(received.subarray(4, 4 + length).toString()) as Head
        pieces.push(received.subarray(4 + length))
      } else pieces.push(piece)
      awaited = head.bytes - pieces.reduce((sum, { length }) => sum + length, 0)
      if (awaited > 0) return
      const { refusal, format = '' } = head
      if (refusal !== undefined) end(() => reject(refusal === 'too large' ? tooLarge() : broken()))
      else end(() => resolve({ format, data: Buffer.concat(pieces) }))
    }
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      end(() => reject(withCause(serverBusy())))
    }, TIMEOUT_MS)
    stdout.on('data', onData)
    child.once('exit', onExit).once('error', onExit)
    source.once('error', onSource)
    const text = Buffer.from(JSON.stringify(job))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(text.length)
    stdin.write(Buffer.concat([length, text]))
    source.pipe(stdin, { end: false })
  })
}

/** Marks an error after which the process is not used again. */
const withCause = ({ errorCode, message, headers }: AppError): AppError =>
  new AppError(errorCode, message, { cause: new Error('the image process was ended'), ...(headers && { headers }) })
