import { availableParallelism } from 'node:os'
import type { Worker } from 'node:worker_threads'
import type { Options } from '@node-rs/argon2'
import { serverBusy } from '../core/errors.ts'
import { type HashJob, type HashResult, startPasswordWorker } from './hash-worker.ts'
import { argon2idWork, BCRYPT_HASH, hashRecipe } from './imported-hash.ts'

export type Passwords = {
  hash(password: string): Promise<string>
  /**
   * Without a supported hash (no such account, no password) one hash is still computed, so that the response takes the
   * same time.
   */
  verify(password: string, encoded: string | undefined): Promise<boolean>
  /** Of another form or less work than ours: to be replaced once the password is known. */
  isOutdated(encoded: string): boolean
  /** The number of hashes that wait for a worker. */
  queued(): number
  stop(): Promise<void>
}

export type PasswordConfig = {
  /** KiB per hash. */
  argon2_memory: number
  argon2_time: number
  argon2_threads: number
  /** Parallel hashes; capped at the number of cores. */
  hash_concurrency: number
  /** Waiting hashes; further ones are refused with 503. */
  hash_queue: number
}

const IDLE_MS = 30_000

export type Argon2Config = Pick<PasswordConfig, 'argon2_memory' | 'argon2_time' | 'argon2_threads'>

export const argon2Options = ({ argon2_memory, argon2_time, argon2_threads }: Argon2Config): Options => ({
  memoryCost: argon2_memory,
  timeCost: argon2_time,
  parallelism: argon2_threads,
})

type Task = { job: HashJob; resolve: (value: string | boolean) => void; reject: (error: Error) => void }
type WorkerSlot = { worker: Worker; task: Task | undefined; idle: NodeJS.Timeout | undefined }

/** Runs argon2id in low-priority worker threads, started on demand, behind a bounded queue. */
export function createPasswords(config: PasswordConfig): Passwords {
  const options = argon2Options(config)
  const maxSlots = Math.max(1, Math.min(config.hash_concurrency, availableParallelism()))
  const slots = new Set<WorkerSlot>()
  const waiting: Task[] = []
  let closed = false
  const isOutdated = (encoded: string): boolean => argon2idWork(encoded) < config.argon2_memory * config.argon2_time

  function submit(job: HashJob): Promise<string | boolean> {
    return new Promise((resolve, reject) => {
      const task = { job, resolve, reject }
      const slot = closed ? undefined : freeSlot()
      if (slot) assign(slot, task)
      else if (!closed && waiting.length < config.hash_queue) waiting.push(task)
      else reject(serverBusy())
    })
  }

  function freeSlot(): WorkerSlot | undefined {
    for (const slot of slots) if (!slot.task) return slot
    return slots.size < maxSlots ? newSlot() : undefined
  }

  function newSlot(): WorkerSlot {
    const worker = startPasswordWorker(options)
    const slot: WorkerSlot = { worker, task: undefined, idle: undefined }
    worker.on('message', (answer: HashResult) => {
      const task = slot.task
      slot.task = undefined
      if ('failure' in answer) task?.reject(new Error(`password hashing failed: ${answer.failure}`))
      else task?.resolve(answer.value)
      next(slot)
    })
    worker.on('error', (error) => onWorkerLost(slot, error))
    worker.on('exit', () => onWorkerLost(slot, new Error('password worker ended')))
    slots.add(slot)
    return slot
  }

  function assign(slot: WorkerSlot, task: Task): void {
    clearTimeout(slot.idle)
    slot.task = task
    slot.worker.ref()
    slot.worker.postMessage(task.job)
  }

  function next(slot: WorkerSlot): void {
    const task = waiting.shift()
    if (task) {
      assign(slot, task)
      return
    }
    slot.worker.unref()
    slot.idle = setTimeout(() => {
      slots.delete(slot)
      void slot.worker.terminate()
    }, IDLE_MS).unref()
  }

  function onWorkerLost(slot: WorkerSlot, error: Error): void {
    clearTimeout(slot.idle)
    slots.delete(slot)
    slot.task?.reject(error)
    slot.task = undefined
    const task = closed ? undefined : waiting.shift()
    if (task) assign(newSlot(), task)
  }

  return {
    hash: async (password) => String(await submit({ kind: 'hash', password: normalPassword(password) })),
    verify: async (password, encoded) => {
      const recipe = encoded === undefined ? undefined : hashRecipe(encoded)
      if (recipe) {
        const job = { password: normalPassword(password), given: password, recipe, hasDecoy: isOutdated(encoded ?? '') }
        return (await submit({ kind: 'verify', ...job })) === true
      }
      await submit({ kind: 'hash', password: normalPassword(password) })
      return false
    },
    isOutdated,
    queued: () => waiting.length,
    stop: async () => {
      closed = true
      for (const task of waiting.splice(0)) task.reject(serverBusy())
      await Promise.all([...slots].map((slot) => slot.worker.terminate()))
    },
  }
}

export const isBcrypt = (encoded: string): boolean => BCRYPT_HASH.test(encoded)

/** Unicode normalization makes input of different keyboards equal (NIST SP 800-63B, 3.1.1.2). */
export const normalPassword = (password: string): string => password.normalize('NFC')
