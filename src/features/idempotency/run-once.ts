import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { sleep } from '../../core/clock.ts'
import { AppError } from '../../core/errors.ts'
import { type Identity, onBehalfOf } from '../../core/identity.ts'
import { KeyedLimit, KeyedMutex } from '../../core/limits.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import { claimRefusal, findKept, isOver, type KeptRow } from '../../db/once.ts'
import { sweep } from '../../db/sweep.ts'
import type { HttpCall } from '../../http/exchange.ts'
import type { Feature } from '../../http/feature.ts'
import type { RunOnce } from '../../http/pipeline.ts'
import type { Reply, Route } from '../../http/route.ts'
import { type KeyLimits, type RequestKey, requestKeyOf } from './request-key.ts'
import { openAnswer } from './sealed-answer.ts'
import { expiredAnswers, freeBytes } from './sql.ts'

export type IdempotencyDeps = {
  db: Db
  observe: Observe
  limits: KeyLimits
  /** How long a request waits for the one that makes its write. */
  waitMs: number
}

/** Requests with the same key in this process: one at work, and those that wait for it. */
const AT_ONCE = 21
/** How often another process is looked after that makes the write. */
const POLL_MS = { first: 20, longest: 250 }
/** The part of a full quota that is freed at once. */
const FREED_PART = 1 / 32

const stillInProgress = (): AppError => new AppError('in_progress', 'still in progress')
const tooManyKept = (): AppError =>
  new AppError('rate_limited', 'too many answers are kept, please retry later', { headers: { 'Retry-After': '60' } })
const alreadyDone = (): AppError => new AppError('already_done', 'already done')

/** Writes with an Idempotency-Key happen once; their answers are kept with them, and given again. */
export function createIdempotency({ db, observe, limits, waitMs }: IdempotencyDeps): Feature & { runOnce: RunOnce } {
  const places = new KeyedLimit({ perKey: AT_ONCE })
  const turns = new KeyedMutex()
  let sweeping: Loop | undefined

  const runOnce: RunOnce = async (route, call) => {
    const key = requestKeyOf(route, call, limits)
    const name = key.once.id.toString('hex')
    const leave = places.tryAcquire(name)
    if (!leave) throw stillInProgress()
    const deadline = performance.now() + waitMs
    const work = () => new Attempt(db, route, call, key, deadline).run()
    const wait = { signal: call.cancelSignal, timeoutMs: waitMs, onTimeout: stillInProgress }
    return turns.run(name, work, wait).finally(leave)
  }

  return {
    runOnce,
    start: () => {
      sweeping = sweep({ db, observe, what: 'kept answers', remove: expiredAnswers(limits.retention) })
    },
    stop: async () => sweeping?.stop(),
  }
}

/** One request at its turn. */
class Attempt {
  readonly #db: Db
  readonly #route: Route
  readonly #call: HttpCall
  readonly #key: RequestKey
  readonly #deadline: number
  /** The server, at work for the caller. */
  readonly #server: Identity

  constructor(db: Db, route: Route, call: HttpCall, key: RequestKey, deadline: number) {
    this.#db = db
    this.#route = route
    this.#call = call
    this.#key = key
    this.#deadline = deadline
    this.#server = onBehalfOf(call.who)
  }

  async run(): Promise<Reply> {
    const [route, call] = [this.#route, this.#call]
    const { once } = this.#key
    call.once = once
    const handle = async (): Promise<Reply> => route.run(call)
    try {
      if (route.bodyKind !== 'raw') return await this.#repeat(handle)
      once.repeat = (work) => this.#repeat(work)
      return await handle()
    } catch (error) {
      // A handler that refused before it planned a write says nothing about the write that was made.
      const mayBeKept = claimRefusal(error) === 'kept' || (isRefusal(error) && once.rights === undefined)
      const [kept] = mayBeKept ? await this.#db.rows<KeptRow>(this.#server, findKept(once.id), { kind: 'read' }) : []
      if (kept) return this.#replay(kept)
      throw error
    }
  }

  async #repeat<T>(work: () => Promise<T>): Promise<T> {
    const { once } = this.#key
    for (;;) {
      once.rights = undefined
      try {
        return await work()
      } catch (error) {
        const refusal = claimRefusal(error)
        if (refusal === 'busy') await this.#untilOver()
        else if (refusal === 'account full') await this.#makeRoom(once.account, once.limits.account)
        else if (refusal === 'all full') await this.#makeRoom(undefined, once.limits.all)
        else throw error
      }
    }
  }

  /** Another process makes the write. No connection is held meanwhile. */
  async #untilOver(): Promise<void> {
    for (let pause = POLL_MS.first; performance.now() < this.#deadline; pause = Math.min(pause * 2, POLL_MS.longest)) {
      await sleep(pause)
      if (this.#call.cancelSignal.aborted) throw new AppError('request_timeout', 'request was aborted')
      if ((await this.#db.fly(this.#server, isOver(this.#key.once.id), { kind: 'read' })) === 'true') return
    }
    throw stillInProgress()
  }

  async #makeRoom(account: string | undefined, limit: number): Promise<void> {
    const freed = await this.#db.run(this.#server, freeBytes(account, Math.ceil(limit * FREED_PART)), { kind: 'slow' })
    if (freed === 0 || performance.now() > this.#deadline) throw tooManyKept()
  }

  async #replay({ body, answer }: KeptRow): Promise<Reply> {
    const { once, secret } = this.#key
    once.body ??= await digestOfStream(this.#call.raw.request)
    if (body !== once.body.toString('hex')) {
      throw new AppError('idempotency_key_reused', 'idempotency key was used for another request')
    }
    if (answer === null) throw new AppError('already_done', 'already done; the answer was too large to keep')
    const stored = openAnswer(secret, once.id, Buffer.from(answer, 'base64'))
    const rights = new Set(once.rights)
    if (!stored || once.rights === undefined || !stored.rights.every((right) => rights.has(right))) throw alreadyDone()
    const headers = { 'Idempotency-Replayed': 'true' }
    return { status: stored.status, headers, ...(stored.body.length > 0 && { json: stored.body }) }
  }
}

const isRefusal = (error: unknown): boolean => error instanceof AppError && error.status < 500

/** Of a body that the handler refused to read; that of one which is cut off equals none. */
async function digestOfStream(request: IncomingMessage): Promise<Buffer> {
  const hash = createHash('sha256')
  try {
    for await (const chunk of request) hash.update(chunk as Buffer)
    return hash.digest()
  } catch {
    return Buffer.alloc(0)
  }
}
