import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { sleep } from '../../core/clock.ts'
import { AppError } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
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

  constructor(db: Db, route: Route, call: HttpCall, key: RequestKey, deadline: number) {
    this.#db = db
    this.#route = route
    this.#call = call
    this.#key = key
    this.#deadline = deadline
  }

  async run(): Promise<Reply> {
    const { once } = this.#key
    for (;;) {
      this.#call.once = once
      once.rights = undefined
      try {
        return await this.#route.run(this.#call)
      } catch (error) {
        const reply = await this.#afterRefusal(error)
        if (reply) return reply
      }
    }
  }

  /** The kept answer, or nothing when the handler should run again. */
  async #afterRefusal(error: unknown): Promise<Reply | undefined> {
    const refusal = claimRefusal(error)
    const { account, limits } = this.#key.once
    switch (refusal) {
      case 'busy':
        return this.#untilOver()
      case 'account full':
        return this.#makeRoom(account, limits.account)
      case 'all full':
        return this.#makeRoom(undefined, limits.all)
      default: {
        // A handler that refused before it planned a write says nothing about the write that was made.
        const mayBeKept = refusal === 'kept' || (isRefusal(error) && this.#key.once.rights === undefined)
        const kept = mayBeKept ? await this.#find() : undefined
        if (kept) return this.#replay(kept)
        if (refusal === 'kept' && performance.now() < this.#deadline) return undefined
        throw error
      }
    }
  }

  async #find(): Promise<KeptRow | undefined> {
    const [kept] = await this.#db.rows<KeptRow>(SYSTEM, findKept(this.#key.once.id), { kind: 'read' })
    return kept
  }

  /** Another process makes the write. No connection is held meanwhile. */
  async #untilOver(): Promise<undefined> {
    for (let pause = POLL_MS.first; performance.now() < this.#deadline; pause = Math.min(pause * 2, POLL_MS.longest)) {
      await sleep(pause)
      if (this.#call.cancelSignal.aborted) throw new AppError('request_timeout', 'request was aborted')
      if ((await this.#db.fly(SYSTEM, isOver(this.#key.once.id), { kind: 'read' })) === 'true') return
    }
    throw stillInProgress()
  }

  async #makeRoom(account: string | undefined, limit: number): Promise<undefined> {
    const freed = await this.#db.run(SYSTEM, freeBytes(account, Math.ceil(limit * FREED_PART)), { kind: 'slow' })
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

async function digestOfStream(request: IncomingMessage): Promise<Buffer> {
  const hash = createHash('sha256')
  for await (const chunk of request) hash.update(chunk as Buffer)
  return hash.digest()
}
