import type { Once, OnceAnswer } from '../core/once.ts'
import { raisedBy } from './pg-errors.ts'
import { type Sql, sql } from './sql.ts'

const bytea = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`

/** The advisory lock of a key, held by the transaction that makes its write. */
const lockOf = (id: Buffer): Sql => sql`${id.readBigInt64BE(0)}::int8`

/** Fails unless this transaction may make the write; see claimRefusal. */
export const claimStatement = (logKey: string, { id, account, limits }: Once): Sql => sql`
  select svc.claim_answer(${logKey}, ${bytea(id)}::bytea, ${lockOf(id)}, ${account ?? null}::text,
    ${limits.account}::int8, ${limits.all}::int8)`

export function keepStatement(logKey: string, once: Once, answer: OnceAnswer): Sql {
  const sealed = once.seal(answer)
  const { account = once.account ?? '', sessionId = null } = answer
  return sql`
  select svc.keep_answer(${logKey}, ${bytea(once.id)}::bytea, ${account}::text, ${sessionId}::uuid,
    ${bytea(once.body ?? Buffer.alloc(0))}::bytea, ${sealed && bytea(sealed)}::bytea, ${once.seconds}::float8)`
}

/** Whether the transaction that had claimed the key is over. */
export const isOver = (id: Buffer): Sql => sql`select pg_try_advisory_xact_lock_shared(${lockOf(id)})::text`

export type KeptRow = { body: string; answer: string | null }

export const findKept = (id: Buffer): Sql => sql`
  select encode(body, 'hex') as body, encode(answer, 'base64') as answer from svc.kept_answers
  where id = ${bytea(id)}::bytea and expires_at > now()`

type ClaimRefusal = 'busy' | 'kept' | 'account full' | 'all full'

const REFUSALS: ReadonlyMap<string, ClaimRefusal> = new Map([
  ['SVK01', 'busy'],
  ['SVK02', 'kept'],
  ['SVK03', 'account full'],
  ['SVK04', 'all full'],
])

/** `statementIndex` of a claim, which is in front of the caller's statements. */
export const CLAIM_INDEX = -1

/** Why a write with an Idempotency-Key was not made. A function that raises the same SQLSTATE is no claim. */
export function claimRefusal(error: unknown): ClaimRefusal | undefined {
  const cause = raisedBy(error)
  return cause?.statementIndex === CLAIM_INDEX ? REFUSALS.get(cause.code ?? '') : undefined
}
