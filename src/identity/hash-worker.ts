import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import type { Options } from '@node-rs/argon2'

export type HashJob = { kind: 'hash'; password: string } | { kind: 'verify'; password: string; encoded: string }
export type HashResult = { value: string | boolean } | { failure: string }

// Source text instead of a file, because TypeScript loaders do not work in worker threads on Node 20.
// On Linux the nice value applies to the calling thread, so only this worker gets a low priority; elsewhere it would
// slow the whole process.
const source = `
const { parentPort, workerData } = require('node:worker_threads')
const { hashSync, verifySync } = require(workerData.argon2)
const fits = (encoded, password) => {
  try {
    return encoded.startsWith('$2')
      ? require(workerData.bcrypt).verifySync(password, encoded)
      : verifySync(encoded, password)
  } catch {
    return false // unreadable hash
  }
}
if (process.platform === 'linux') require('node:os').setPriority(0, 19)
parentPort.on('message', (job) => {
  try {
    const value = job.kind === 'hash' ? hashSync(job.password, workerData.options) : fits(job.encoded, job.password)
    parentPort.postMessage({ value })
  } catch (error) {
    parentPort.postMessage({ failure: error.message })
  }
})
`

export function startPasswordWorker(options: Options): Worker {
  const { resolve } = createRequire(import.meta.url)
  const [argon2, bcrypt] = [resolve('@node-rs/argon2'), resolve('@node-rs/bcrypt')]
  return new Worker(source, {
    eval: true,
    workerData: { options, argon2, bcrypt },
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 32 },
  })
}
