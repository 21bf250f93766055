import { AppError, badRequest } from '../../core/errors.ts'
import { type Identity, isOwner, writeRefusal } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { dryRunReply, isDryRun } from '../../http/dry-run.ts'
import { jsonText, type Route, route } from '../../http/route.ts'
import { type Subject, subjectFields, subjectOf } from '../../identity/subject.ts'
import * as answers from './answers.ts'
import { auditableQuery } from './audit.ts'
import { createRunSql, type RunSqlDeps, type SqlRequest, wasRolledBack } from './run-sql.ts'

type Admin = Extract<Identity, { kind: 'admin' }>

/** A saved query, and whose it is; `role`: the lesser of its last author's and its runner's. */
export type SavedQuery = {
  id: string
  name: string
  query: string
  author: string
  runner: string
  role: Admin['role']
}

export type SqlRouteDeps = RunSqlDeps & {
  db: Db
  /** 404 where there is no such query for this administrator. */
  savedQuery: (who: Admin, id: string) => Promise<SavedQuery>
  /** 404 where there is no such caller. */
  identityFor: (admin: Admin, subject: Subject, write: boolean) => Promise<Identity>
}

const body = t.object({
  query: t.optional(t.string()),
  saved: t.optional(t.uuid({ description: 'a saved query in place of `query`' })),
  as: t.optional(t.object(subjectFields, { description: 'the caller to run as, on the login of callers' })),
  write: t.optional(t.boolean({ description: 'with `as`, which only reads without it' })),
  read_only: t.optional(t.boolean()),
  dry_run: t.optional(t.boolean({ description: 'as the header Dry-Run' })),
  all: t.optional(t.boolean({ description: 'the results of every statement' })),
})

export function sqlRoute(deps: SqlRouteDeps): Route {
  const { db } = deps
  const runSql = createRunSql(deps)
  return route('POST /api/admin/sql', {
    summary: "Run SQL: of owners as the server's role, of others read-only, or as a caller",
    auth: 'admin',
    leastRole: 'viewer',
    readsToo: true,
    audit: 'sql.execute',
    dryRun: 'wrapped',
    body,
    answers: { 200: answers.sqlResult },
    handle: async (call) => {
      const admin = call.who as Admin
      const { as: given, write = false, all = false } = call.body
      const isDry = isDryRun(call) || call.body.dry_run === true
      const subject = given && subjectOf(given)
      requireSense(admin, { ...call.body, isDry })
      const saved = call.body.saved === undefined ? undefined : await deps.savedQuery(admin, call.body.saved)
      const query = saved?.query ?? call.body.query ?? ''
      if (query.trim() === '') throw badRequest('query is required')
      const as = subject && (await deps.identityFor(admin, subject, write))
      const isReading = call.body.read_only === true || admin.isLocked === true || (as !== undefined && !write)
      // A caller who only reads has nothing to try.
      const mode = isDry && (as === undefined || write) ? 'dry' : isReading ? 'read' : 'write'
      const request: SqlRequest = {
        query,
        mode,
        all,
        as,
        role: saved?.role ?? admin.role,
        signal: call.signal,
        writeRefusal: call.body.read_only ? undefined : writeRefusal(as ?? admin),
      }
      const noted = {
        query: auditableQuery(query),
        ...(isDry && { dry_run: true }),
        ...(isReading && { read_only: true }),
        ...(subject && { as: subject, write }),
        ...(saved && { saved: saved.id, author: saved.author }),
      }
      const entry = { ...call.audit({ newValues: noted }), ...(as && { who: as }) }
      // The query runs on its own connection and may commit and still fail, so its audit entry is written first.
      const isUndone = (error: unknown) => !isDry && (isReading || wasRolledBack(query, error as Error))
      const { text, told } = await auditedEffect(db, entry, () => runSql(request), isUndone)
      const answer = saved ? `${text.slice(0, -1)},"saved":${savedText(saved)}}` : text
      return isDry ? dryRunReply(jsonText(200, answer), told || '"changes":[]') : jsonText(200, answer)
    },
  })
}

const savedText = ({ query: _query, ...named }: SavedQuery): string => JSON.stringify(named)

type Wish = { query?: string; saved?: string; as?: object; write?: boolean; isDry: boolean }

/** Refuses what contradicts itself, and what this administrator may not do. */
function requireSense(admin: Admin, { query, saved, as, write, isDry }: Wish): void {
  if (query !== undefined && saved !== undefined) throw badRequest('choose one of query, saved')
  if (write !== undefined && as === undefined) throw badRequest('write is for as')
  if (as !== undefined && admin.role === 'viewer')
    throw new AppError('insufficient_role', 'this needs the role operator of an administrator')
  if (as !== undefined && write && !isOwner(admin))
    throw new AppError('insufficient_role', 'SQL that writes needs the role owner')
  if (admin.isLocked && (isDry || write)) throw writeRefusal(admin)
}
