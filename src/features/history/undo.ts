import { AppError, badRequest, hasStatus, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { parseMoment } from '../../core/moment.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { type ChangeFilter, selectIds } from '../../db/history/history.ts'
import type { UndoOutcome, UndoRequest } from '../../db/history/undo.ts'
import { json, type Route, route } from '../../http/route.ts'
import { isTransaction } from './filter.ts'

export type UndoDeps = {
  db: Db
  retention: number
  undo: (request: UndoRequest) => Promise<UndoOutcome>
  wake: () => void
}

const MOST = 10_000

const named = t.object({
  request_id: t.optional(t.string()),
  transaction: t.optional(t.string()),
  changes: t.optional(t.array(t.string(), { maxItems: MOST })),
  user: t.optional(t.string()),
  from: t.optional(t.string()),
  to: t.optional(t.string()),
  dry_run: t.optional(t.boolean()),
  force: t.optional(t.boolean()),
})
type Named = t.TypeOf<typeof named>

export const undoRoute = ({ db, retention, undo, wake }: UndoDeps): Route =>
  route('POST /api/admin/undo', {
    summary: 'Undo the changes of a request, a transaction or a user, all or none',
    auth: 'admin',
    leastRole: 'operator',
    audit: 'changes.undo',
    body: named,
    answers: {
      200: t.object({
        transaction: t.nullable(t.string({ description: 'null of a dry run' })),
        undone: t.array(t.object({ table: t.string(), key: t.any(), action: t.oneOf(['create', 'update', 'delete']) })),
      }),
    },
    handle: async (call) => {
      const { body, who, requestId } = call
      const { dry_run: isDry = false, force = false, ...what } = body
      const changes = await db.rows<{ id: string; xid: string }>(
        SYSTEM,
        selectIds(filterOfUndo(body), body.changes, retention, MOST + 1),
        { kind: 'slow', plain: true },
      )
      const transactions = [...new Set(changes.map(({ xid }) => xid))]
      if (changes.length === 0) throw notFound('no such changes', 'changes_not_found')
      if (changes.length > MOST) throw badRequest(`more than ${MOST} changes`)
      if (body.request_id !== undefined && transactions.length > 1) {
        throw new AppError('undo_conflict', 'several transactions carry this request id', { beside: { transactions } })
      }
      const undoes = transactions.length === 1 ? transactions[0] : transactions
      const ids = changes.map(({ id }) => id)
      const note = { target: transactions.join(',').slice(0, 200), newValues: { ...what, force, dry_run: isDry } }
      // The writes run as a login of their own, so the entry is not in their transaction.
      const work = async (): Promise<UndoOutcome> => {
        const outcome = await undo({ who, requestId, ids, undoes, force, isDry })
        if (outcome.conflicts.length === 0) return outcome
        throw new AppError('undo_conflict', 'some rows cannot be put back', {
          beside: { conflicts: outcome.conflicts },
        })
      }
      const { transaction, undone } = await auditedEffect(db, call.audit(note), work, isConflict)
      if (!isDry) wake()
      return json(200, { transaction: isDry ? null : transaction, undone })
    },
  })

/** Nothing was done. */
const isConflict = (error: unknown): boolean => hasStatus(error, 409)

/** Exactly one way to name changes. */
function filterOfUndo({ request_id: requestId, transaction, changes, user, from, to }: Named): ChangeFilter {
  const ways = [requestId, transaction, changes, user].filter((way) => way !== undefined && way.length > 0)
  if (ways.length !== 1)
    throw badRequest('one of request_id, transaction, changes, or user with from and to is required')
  if (transaction !== undefined && !isTransaction(transaction)) throw badRequest('invalid transaction')
  if (changes?.some((id) => !/^\d{1,18}$/.test(id))) throw badRequest('invalid changes')
  if (user === undefined) {
    return { ...(requestId !== undefined && { requestId }), ...(transaction !== undefined && { transaction }) }
  }
  if (from === undefined || to === undefined) throw badRequest('user needs from and to')
  return { user, from: parseMoment(from, 'from').at, to: parseMoment(to, 'to').at }
}
