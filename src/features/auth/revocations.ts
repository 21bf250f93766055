import type { Clock } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import { type Identity, impersonationOf, SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db, Notifications } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { currentSalt, ensureSalt } from './keys.ts'
import { storedSettings } from './settings.ts'
import { type StoredKey, storedKeys } from './signing-keys.ts'

export type Revocation = {
  kind: 'session' | 'user' | 'key' | 'oauth_token' | 'admin' | 'all_users'
  subject: string
}

const POLL_MS = 400
/** Between two polls, so that a flood of logouts is read in batches. */
const GAP_MS = 40
const TRUST_MS = 1_000
const PRUNE_EVERY_MS = 600_000

type AccountState = {
  now: number
  xmin: string
  salt: string
  signing: StoredKey[]
  settings: unknown
  revoked: (Revocation & { id: number })[]
}

// Transactions still running at the last poll have an id of at least its xmin, so none of them is skipped when it
// commits late.
const stateSince = (xmin: string | undefined): Sql => sql`
  select json_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'xmin', pg_snapshot_xmin(pg_current_snapshot())::text,
    'salt', ${currentSalt},
    'signing', ${storedKeys},
    'settings', (${storedSettings}),
    'revoked', ${
      xmin === undefined
        ? sql`'[]'::json`
        : sql`(select coalesce(json_agg(json_build_object('id', id, 'kind', kind, 'subject', subject)), '[]')
               from svc.revocations where xid >= ${xmin}::xid8)`
    })::text`

const prune: Sql = sql`delete from svc.revocations where at < now() - interval '1 hour'`

type Ends = (who: Identity) => boolean

/**
 * Revocations, salt and auth settings, which every process learns within a second of a change; see
 * docs/decisions/accounts-and-tokens.md.
 */
export class Revocations {
  readonly #db: Db & Notifications
  readonly #observe: Observe
  readonly #listeners: ((ends: Ends) => void)[] = []
  #state: AccountState | undefined
  #seen = new Set<number>()
  #clockOffset = 0
  #readAt = Number.NEGATIVE_INFINITY
  #prunedAt = performance.now()
  #generation = 0
  #loop: Loop | undefined
  #unlisten: (() => Promise<void>) | undefined

  /** The database's time, so that a wrong local clock neither ends nor revives a token. */
  readonly clock: Clock = { now: () => performance.now() + this.#clockOffset }

  private constructor({ db, observe }: { db: Db & Notifications; observe: Observe }) {
    this.#db = db
    this.#observe = observe
  }

  static async open(deps: { db: Db & Notifications; observe: Observe }): Promise<Revocations> {
    const revocations = new Revocations(deps)
    await revocations.#start()
    return revocations
  }

  async #start(): Promise<void> {
    await this.#db.run(SYSTEM, ensureSalt())
    const poke = (): void => this.#loop?.poke()
    this.#unlisten = await this.#db.listen('svc_revocations', poke, poke)
    this.#loop = new Loop({
      step: () => this.#poll(),
      everyMs: POLL_MS,
      firstMs: POLL_MS,
      gapMs: () => GAP_MS,
      onFailure: (error) =>
        this.#observe({ message: 'revocations cannot be read', attrs: { reason: reasonOf(error) } }),
    })
    await this.refresh()
  }

  /** What the keys of tokens are made of. */
  secrets(): { salt: string; signing: readonly StoredKey[] } {
    return this.#current()
  }

  /** The auth settings as stored, null until an operator changes them. */
  settings(): unknown {
    return this.#current().settings
  }

  /** Whether the state is at most a second old; if not, cached identities must not be used. */
  isFresh(): boolean {
    return performance.now() - this.#readAt <= TRUST_MS
  }

  /** Increases with every batch of revocations. */
  generation(): number {
    return this.#generation
  }

  onRevoked(listener: (ends: Ends) => void): void {
    this.#listeners.push(listener)
  }

  /** Applies revocations of this process at once; call it after their commit. */
  apply(batch: readonly Revocation[]): void {
    if (batch.length > 0) this.#notify(endedBy(batch))
  }

  /** Resolves after a poll that started after this call, since a running one may have missed a change. */
  async refresh(): Promise<void> {
    await this.#loop?.next()
  }

  async stop(): Promise<void> {
    await this.#unlisten?.()
    await this.#loop?.stop()
  }

  #current(): AccountState {
    if (!this.#state) throw new Error('revocations have not been read yet')
    return this.#state
  }

  async #poll(): Promise<undefined> {
    const startedAt = performance.now()
    const before = this.#state
    const text = await this.#db.fly(SYSTEM, stateSince(before?.xmin), { timeoutMs: 2_000 })
    const state = JSON.parse(text ?? 'null') as AccountState
    this.#clockOffset = state.now - (startedAt + performance.now()) / 2
    const fresh = state.revoked.filter(({ id }) => !this.#seen.has(id))
    this.#seen = new Set(state.revoked.map(({ id }) => id))
    this.#state = state
    // Decreasing transaction ids mean another database, e.g. a restored one, so everything cached is dropped.
    if (before && BigInt(state.xmin) < BigInt(before.xmin)) this.#notify(() => true)
    const isRotated = before !== undefined && before.salt !== state.salt
    this.apply(isRotated ? [...fresh, { kind: 'all_users', subject: '' }] : fresh)
    // Set last, because the cache may be trusted only after the revocations are applied.
    this.#readAt = startedAt
    if (startedAt - this.#prunedAt > PRUNE_EVERY_MS) {
      this.#prunedAt = startedAt
      await this.#db.run(SYSTEM, prune)
    }
  }

  #notify(ends: Ends): void {
    this.#generation++
    for (const listener of this.#listeners) listener(ends)
  }
}

/** Whether one of these revocations ends an identity. */
export function endedBy(batch: readonly Revocation[]): Ends {
  const revoked = new Set(batch.map(({ kind, subject }) => `${kind} ${subject}`))
  const has = (kind: Revocation['kind'], subject: string): boolean => revoked.has(`${kind} ${subject}`)
  const allUsers = batch.some((item) => item.kind === 'all_users')

  return (who) => {
    const impersonation = impersonationOf(who)
    if (impersonation && (has('admin', impersonation.adminTokenId) || has('admin', ''))) return true
    switch (who.kind) {
      case 'user':
        return allUsers || has('session', who.sessionId) || has('user', who.id)
      case 'mfa':
        return allUsers || has('user', who.id)
      case 'key':
        if (has(who.via === 'oauth' ? 'oauth_token' : 'key', who.keyId)) return true
        return who.userId !== null && has('user', who.userId)
      case 'admin':
        return has('admin', who.tokenId) || has('admin', '')
      default:
        return false
    }
  }
}
