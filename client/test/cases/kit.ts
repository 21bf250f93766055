import { ApiError, createClient, type Options } from '../../src/main.ts'
import type { Database } from '../schema.ts'

export type Place = { url: string; options?: Options }

const text = (value: unknown): string =>
  JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? `${part}n` : part === undefined ? 'undefined' : part))

export function equal(actual: unknown, expected: unknown): void {
  if (text(actual) !== text(expected)) throw new Error(`expected ${text(expected)}, got ${text(actual)}`)
}

export async function failure(work: Promise<unknown>): Promise<Error> {
  return work.then(
    (value) => {
      throw new Error(`expected a failure, got ${text(value)}`)
    },
    (error: Error) => error,
  )
}

export async function refusal(work: Promise<unknown>): Promise<ApiError> {
  const error = await failure(work)
  if (!(error instanceof ApiError)) throw error
  return error
}

export async function eventually(check: () => unknown): Promise<void> {
  for (const end = performance.now() + 20_000; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    try {
      return void (await check())
    } catch (error) {
      if (performance.now() > end) throw error
    }
  }
}

let people = 0
export const newAccount = () => ({ email: `p${++people}-${Math.random()}@x.test`, password: 'long enough password' })

export const clientAt = ({ url, options }: Place, more: Options = {}) =>
  createClient<Database>(url, { ...options, ...more })

/** Drops answers: the request arrives, and the caller does not hear of it. */
export const losing = (times: number, path: RegExp): { fetch: NonNullable<Options['fetch']>; lost: () => number } => {
  let lost = 0
  return {
    lost: () => lost,
    async fetch(url, init) {
      const response = await fetch(url, init)
      if (lost >= times || !path.test(url)) return response
      lost++
      await response.text()
      throw new TypeError('the connection was cut')
    },
  }
}

const ends: (() => void)[] = []

/** Ends with the case, also when it fails: a watcher keeps its program alive. */
export const untilEnd = (stop: () => void): void => void ends.push(stop)

export type Cases = Readonly<Record<string, (place: Place) => Promise<void>>>

export async function runCase(work: (place: Place) => Promise<void>, place: Place): Promise<void> {
  try {
    await work(place)
  } finally {
    for (const end of ends.splice(0)) end()
  }
}
