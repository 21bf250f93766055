import { AppError, badRequest, databaseUnavailable, reasonOf } from '../../core/errors.ts'
import { type AdminRole, type Identity, SYSTEM } from '../../core/identity.ts'
import { Semaphore } from '../../core/limits.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { databaseMessage, isCanceled, isConnectionLost, isReadOnlyError, isSyntaxError } from '../../db/pg-errors.ts'
import { MAX_BYTES, MAX_ROWS, TooLarge } from '../../db/script/execute.ts'
import type { Script } from '../../db/script/script.ts'
import type { WrittenResult } from '../../db/script/written-result.ts'
import { endBackend } from './sql.ts'

export type RunSqlDeps = {
  db: Db
  /** On a login of the role's own; of the owner, the server's. */
  openScript: (role: AdminRole) => Promise<Script>
  /** On the login of callers, as one of them. */
  openScriptAs: (who: Identity) => Promise<Script>
  reloadSchema: () => Promise<unknown>
  observe: Observe
  /** Exposed schemas, in lookup order. */
  schemas: readonly string[]
  timeoutMs?: number
}
export type SqlRequest = {
  readonly query: string
  readonly signal: AbortSignal
  /** `read`: in a transaction that only reads. `dry`: in one that is rolled back. */
  readonly mode: 'write' | 'read' | 'dry'
  /** Whether the results of all statements are answered, or the last one's. */
  readonly all: boolean
  readonly role: AdminRole
  readonly as?: Identity | undefined
  /** The refusal of a write where the mode is `read`; default: PostgreSQL's message. */
  readonly writeRefusal?: AppError | undefined
}
export type RunSql = (request: SqlRequest) => Promise<SqlAnswer>
/** JSON texts: the answer, and of a dry run what would have changed. */
export type SqlAnswer = { text: string; told: string }

const TIMEOUT_MS = 30_000
const MAX_AT_ONCE = 4
const MAX_WAIT_MS = 10_000
/** Added to PostgreSQL's own timeout, for queries that switch that one off. */
const GRACE_MS = 500

/** Command tags that cannot change the schema; after any other the schema is reloaded. */
const HARMLESS =
  /^(SELECT|INSERT|UPDATE|DELETE|MERGE|COPY|FETCH|MOVE|SHOW|SET|RESET|EXPLAIN|BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|LISTEN|UNLISTEN|NOTIFY|PREPARE|DEALLOCATE|DISCARD|ANALYZE|VACUUM|CHECKPOINT|LOCK|DECLARE|CLOSE)\b/

/** The answer is `{columns, rows, rowCount, durationMs, message?}`, or `{results}` of all statements. */
export function createRunSql(deps: RunSqlDeps): RunSql {
  const semaphore = new Semaphore(MAX_AT_ONCE)
  const timeoutMs = deps.timeoutMs ?? TIMEOUT_MS
  return ({ query, signal, mode, all, role, as, writeRefusal }) =>
    semaphore.run(
      async () => {
        const script = await (as ? deps.openScriptAs(as) : deps.openScript(role))
        const timedOut = new AbortController()
        const stop = () => stopBackend(deps, script)
        const timer = setTimeout(() => timedOut.abort(), timeoutMs + GRACE_MS)
        timedOut.signal.addEventListener('abort', stop, { once: true })
        signal.addEventListener('abort', stop, { once: true })
        // The caller may have left while the connection was opened.
        if (signal.aborted) stop()
        const startedAt = performance.now()
        try {
          await script.set({ timeoutMs, schemas: deps.schemas })
          const answer = (results: readonly WrittenResult[], durationMs: number): string =>
            all ? allAnswers(results) : lastAnswer(results, durationMs)
          if (mode === 'dry') {
            const { results, told } = await script.tryOut(query, all)
            return { text: answer(results, performance.now() - startedAt), told }
          }
          const outcome = await (mode === 'read' ? script.read(query, all) : script.execute(query, all))
          const durationMs = performance.now() - startedAt
          const results = await script.withJson(outcome)
          await script.end()
          const tags = outcome.flatMap((result) => result.tags)
          if (mode === 'write' && !tags.every((tag) => HARMLESS.test(tag))) await reload(deps)
          return { text: answer(results, durationMs), told: '' }
        } catch (error) {
          if (mode === 'read' && writeRefusal && isReadOnlyError(error)) throw writeRefusal
          const isLate = performance.now() - startedAt >= timeoutMs - 50
          if (timedOut.signal.aborted || (isLate && isCanceled(error))) {
            throw new AppError('sql_error', `query timed out after ${timeoutMs / 1000} seconds`, { cause: error })
          }
          throw sqlError(error)
        } finally {
          clearTimeout(timer)
          signal.removeEventListener('abort', stop)
          await script.end().catch(() => {})
        }
      },
      { timeoutMs: MAX_WAIT_MS },
    )
}

function lastAnswer(results: readonly WrittenResult[], durationMs: number): string {
  return `{${membersOf(results.at(-1), results)},"durationMs":${rounded(durationMs)}}`
}

function allAnswers(results: readonly WrittenResult[]): string {
  const each = results.map((result) => {
    const command = JSON.stringify(result.tags.at(-1) ?? '')
    return `{${membersOf(result, results)},"command":${command},"durationMs":${rounded(result.durationMs)}}`
  })
  return `{"results":[${each.join(',')}]}`
}

/** `message` says when the result was cut: the limits are those of all results together. */
function membersOf(result: WrittenResult | undefined, all: readonly WrittenResult[]): string {
  const { fields = [], rows, affected = 0, isCut = false, jsonRows = [] } = result ?? {}
  const columns = JSON.stringify(fields.map((field) => field.name))
  const total = all.reduce((sum, one) => sum + (one.rows?.length ?? 0), 0)
  const reason = total >= MAX_ROWS ? `${MAX_ROWS} rows` : `${MAX_BYTES / 1024 / 1024} MB`
  const message = isCut ? `,"message":"the result was cut after ${reason}"` : ''
  return `"columns":${columns},"rows":[${jsonRows.join(',')}],"rowCount":${rows === undefined ? affected : rows.length}${message}`
}

const rounded = (ms: number): number => Math.round(ms * 1000) / 1000

/** A query in pg_sleep does not notice a closed connection, so its backend is terminated. */
function stopBackend({ db, observe }: RunSqlDeps, { backend }: Script): void {
  db.run(SYSTEM, endBackend(backend)).catch((error) => {
    observe({ message: 'admin SQL could not be stopped', attrs: { error: reasonOf(error) } })
  })
}

async function reload({ reloadSchema, observe }: RunSqlDeps): Promise<void> {
  await reloadSchema().catch((error: unknown) => {
    observe({ level: 'error', message: 'schema reload failed', attrs: { error: reasonOf(error) } })
  })
}

/** The admin wrote the query, so PostgreSQL's own message is shown. */
function sqlError(error: unknown): unknown {
  if (error instanceof TooLarge) return badRequest('the result has a value that is too large', 'sql_error')
  if (isConnectionLost(error)) return databaseUnavailable(error)
  const message = databaseMessage(error)
  return error instanceof AppError || message === undefined
    ? error
    : new AppError('sql_error', withCommand(message), { cause: error })
}

/** Where an extension is not available, the command that adds it. */
function withCommand(message: string): string {
  const [, name] =
    /^extension "([a-z][a-z0-9_]*)" is not available/.exec(message) ??
    // PostgreSQL 14 names the file instead.
    /could not open extension control file ".*\/([a-z][a-z0-9_]*)\.control"/.exec(message) ??
    []
  return name === undefined ? message : `extension "${name}" is not available; to add it: svc extensions add ${name}`
}

const IN_ONE_TRANSACTION =
  /^\s*(select|insert|update|delete|merge|with|values|table|create|alter|drop|grant|revoke|comment|truncate|copy)\b/i
const MAY_LEAVE_SOMETHING = /;|\b(concurrently|database|tablespace|subscription|system|program)\b/i

/**
 * True if PostgreSQL refused a single statement that runs in one transaction, or could not parse the text. Several
 * statements, or one that commits by itself, may have left changes behind.
 */
export function wasRolledBack(query: string, { cause }: { cause?: unknown }): boolean {
  if (databaseMessage(cause) === undefined || isConnectionLost(cause)) return false
  // A syntax error inside a function or block has a `where`.
  if (isSyntaxError(cause) && (cause as { where?: string }).where === undefined) return true
  const statement = query.replace(/[\s;]+$/, '')
  return IN_ONE_TRANSACTION.test(statement) && !MAY_LEAVE_SOMETHING.test(statement)
}
