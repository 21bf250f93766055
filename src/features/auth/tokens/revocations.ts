import type { Clock } from '../../../core/clock.ts'
import { reasonOf } from '../../../core/errors.ts'
import { type Identity, SYSTEM } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Db } from '../../../db/db.ts'
import { type Sql, sql } from '../../../db/sql.ts'
import { storedSettings } from '../settings.ts'
import { currentSalt, ensureSalt } from './keys.ts'

export type Revocation = {
  kind: 'session' | 'user' | 'key' | 'oauth_token' | 'admin' | 'all_users'
  subject: string
}

/** What every process must know about accounts within a second of any other process changing it. */
export type Revocations = {
  /** The database's time, so that a wrong or jumping clock of this machine neither kills nor revives a token. */
  readonly clock: Clock
  salt(): string
  /** The auth settings as stored, null while nobody changed them. */
  settings(): unknown
  /** Whether what is known here is at most a second old; if not, cached verdicts count for nothing. */
  isFresh(): boolean
  /** Moves with every batch of revocations. */
  generation(): number
  onRevoked(heard: (ends: (who: Identity) => boolean) => void): void
  /** Makes revocations of this process count at once; call it after their commit. */
  apply(batch: readonly Revocation[]): void
  /** Resolves when something at least as new as this call has been read. */
  refresh(): Promise<void>
  close(): Promise<void>
}

const POLL_MS = 400
/** Between two looks that notifications ask for, so that a flood of logouts is read in batches. */
const NUDGED_MS = 40
const TRUST_MS = 1_000
const PRUNE_EVERY_MS = 600_000

type News = { now: number; xmin: string; salt: string; settings: unknown; revoked: (Revocation & { id: number })[] }

// Transactions still running at the last look have an id of at least its xmin, so none of them is skipped when it
// commits late.
const newsSince = (xmin: string | undefined): Sql => sql`
  select json_build_object(
    'now', extract(epoch from clock_timestamp()) * 1000,
    'xmin', pg_snapshot_xmin(pg_current_snapshot())::text,
    'salt', ${currentSalt},
    'settings', (${storedSettings}),
    'revoked', ${
      xmin === undefined
        ? sql`'[]'::json`
        : sql`(select coalesce(json_agg(json_build_object('id', id, 'kind', kind, 'subject', subject)), '[]')
               from svc.revocations where xid >= ${xmin}::xid8)`
    })::text`

const prune: Sql = sql`delete from svc.revocations where at < now() - interval '1 hour'`

/** See docs/decisions/0005-revocation.md. */
export async function startRevocations({ db, observe }: { db: Db; observe: Observe }): Promise<Revocations> {
  const listeners: ((ends: (who: Identity) => boolean) => void)[] = []
  let known: News | undefined
  let seen = new Set<number>()
  let clockOffset = 0
  let readAt = Number.NEGATIVE_INFINITY
  let prunedAt = performance.now()
  let generation = 0
  let polling: Promise<void> | undefined
  let again: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let nudged = false
  let failing = false
  let closed = false

  async function poll(): Promise<void> {
    const startedAt = performance.now()
    const text = await db.fly(SYSTEM, newsSince(known?.xmin), { timeoutMs: 2_000 })
    const news = JSON.parse(text ?? 'null') as News
    clockOffset = news.now - (startedAt + performance.now()) / 2
    const rotated = known !== undefined && known.salt !== news.salt
    // Transaction ids that go back mean another database, e.g. a restored one: nothing known is about it.
    const replaced = known !== undefined && BigInt(news.xmin) < BigInt(known.xmin)
    const fresh = news.revoked.filter(({ id }) => !seen.has(id))
    seen = new Set(news.revoked.map(({ id }) => id))
    known = news
    if (replaced) tell(() => true)
    apply(rotated ? [...fresh, { kind: 'all_users', subject: '' }] : fresh)
    // Only now: what was read before is trusted again from the moment it is applied.
    readAt = startedAt
    if (startedAt - prunedAt > PRUNE_EVERY_MS) {
      prunedAt = startedAt
      await db.run(SYSTEM, prune)
    }
  }

  function apply(batch: readonly Revocation[]): void {
    if (batch.length > 0) tell(endedBy(batch))
  }

  function tell(ends: (who: Identity) => boolean): void {
    generation++
    for (const heard of listeners) heard(ends)
  }

  /** One look at a time; a call during a look waits for the next one, because the running one may have missed it. */
  function refresh(): Promise<void> {
    if (polling) {
      again ??= polling
        .catch(() => {})
        .then(() => {
          again = undefined
          return refresh()
        })
      return again
    }
    clearTimeout(timer)
    polling = poll().finally(() => {
      polling = undefined
      if (!closed) timer = setTimeout(look, nudged ? NUDGED_MS : POLL_MS).unref()
      nudged = false
    })
    return polling
  }

  function nudge(): void {
    if (polling) nudged = true
    else if (performance.now() - readAt > NUDGED_MS) look()
    else {
      clearTimeout(timer)
      timer = setTimeout(look, NUDGED_MS).unref()
    }
  }

  function look(): void {
    if (closed) return
    refresh().then(
      () => {
        failing = false
      },
      (error) => {
        if (!failing && !closed) {
          observe({ level: 'warn', message: 'revocations cannot be read', attrs: { reason: reasonOf(error) } })
        }
        failing = true
      },
    )
  }

  await db.run(SYSTEM, ensureSalt())
  const unlisten = await db.listen('svc_revocations', nudge, nudge)
  await refresh()

  const current = (): News => {
    if (!known) throw new Error('revocations have not been read yet')
    return known
  }

  return {
    clock: { now: () => performance.now() + clockOffset },
    salt: () => current().salt,
    settings: () => current().settings,
    isFresh: () => performance.now() - readAt <= TRUST_MS,
    generation: () => generation,
    onRevoked: (heard) => {
      listeners.push(heard)
    },
    apply,
    refresh,
    close: async () => {
      closed = true
      clearTimeout(timer)
      await unlisten()
      await polling?.catch(() => {})
      clearTimeout(timer)
    },
  }
}

/** Whether an identity rests on something that one of these revocations ended. */
export function endedBy(batch: readonly Revocation[]): (who: Identity) => boolean {
  const of = (kind: Revocation['kind']): Set<string> =>
    new Set(batch.filter((item) => item.kind === kind).map((item) => item.subject))
  const [sessions, users, keys, oauthTokens, admins] = [
    of('session'),
    of('user'),
    of('key'),
    of('oauth_token'),
    of('admin'),
  ]
  const allUsers = batch.some((item) => item.kind === 'all_users')

  return (who) => {
    switch (who.kind) {
      case 'user':
        return allUsers || sessions.has(who.sessionId) || users.has(who.id)
      case 'mfa':
        return allUsers || users.has(who.id)
      case 'key':
        return (
          (who.via === 'oauth' ? oauthTokens : keys).has(who.keyId) || (who.userId !== null && users.has(who.userId))
        )
      case 'admin':
        return admins.has(who.tokenId) || admins.has('')
      default:
        return false
    }
  }
}
