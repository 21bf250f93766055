import { AppError, databaseUnavailable, type ErrorCode, outcomeUnknown, unavailable } from '../core/errors.ts'

/** An error as the driver reports it: from PostgreSQL (with a SQLSTATE) or from the connection. */
export type PgError = Error & {
  code?: string
  detail?: string
  constraint?: string
  column?: string
  severity?: string
  /** Of PostgreSQL's source, or an extension's. */
  file?: string
  routine?: string
  /** Position in the flight of the statement that failed; see failedStatement. */
  statementIndex?: number
  /** Its text, without values, and the position of the error in it, from 1. */
  statement?: string | undefined
  position?: string
  /** The functions, or the parameter, in which it was raised. */
  where?: string
  /** Set by asConnectionError. */
  isConnectionError?: boolean
  /** Set by asUnknownFate. */
  isFateUnknown?: boolean
}

/** Which statement of a flight PostgreSQL refused. */
export function failedStatement(error: unknown): number | undefined {
  const cause = error instanceof AppError ? (error.cause as PgError | undefined) : undefined
  return cause?.statementIndex
}

const causeOf = (error: unknown): PgError | undefined =>
  (error instanceof AppError ? error.cause : error) as PgError | undefined

/** Errors of the socket have codes too (EPIPE looks like a SQLSTATE); only PostgreSQL's have a severity. */
export const raisedBy = (error: unknown): PgError | undefined => {
  const cause = causeOf(error)
  return cause?.severity === undefined ? undefined : cause
}

/** Raised by svc.answer_bytes, whose function has a SQLSTATE for dates. */
const TOO_LARGE = 'SV413'

/** The SQLSTATE behind an error, if PostgreSQL raised it. */
function sqlStateOf(error: unknown): string | undefined {
  const cause = raisedBy(error)
  return cause?.routine === 'date_pli' ? TOO_LARGE : cause?.code
}

/** PostgreSQL's own message, for the author of the statement. */
export const databaseMessage = (error: unknown): string | undefined => raisedBy(error)?.message

const MAX_SHOWN = 200

/** What PostgreSQL refused and why, in one line for the operator. */
export function databaseRefusal(error: unknown): string | undefined {
  const cause = raisedBy(error)
  if (cause === undefined) return undefined
  const { message, statement = '', position } = cause
  const from = Math.max(0, Number(position ?? 1) - 1 - MAX_SHOWN / 2)
  const text = statement
    .slice(from, from + MAX_SHOWN)
    .replace(/\s+/g, ' ')
    .trim()
  if (text === '') return message
  const [before, after] = [from > 0 ? '… ' : '', from + MAX_SHOWN < statement.length ? ' …' : '']
  return `${message}, in: ${before}${text}${after}`
}

/** Marks an error that closed a connection or kept it from opening; the error itself does not show it. */
export const asConnectionError = <E extends Error>(error: E): E => Object.assign(error, { isConnectionError: true })

/** The connection broke without a word of PostgreSQL, or could not be opened. */
export const isConnectionError = (error: unknown): boolean => causeOf(error)?.isConnectionError === true

/** Marks a failure after which the statement may or may not be committed. */
export const asUnknownFate = <E extends Error>(error: E): E => Object.assign(error, { isFateUnknown: true })

/** SQLSTATEs of a lost connection, a shutdown and too many clients. */
const LOST = /^(?:08|57P0|53300)/

type ErrorTest = (error: unknown) => boolean
const raised =
  (...states: readonly string[]): ErrorTest =>
  (error) =>
    states.includes(sqlStateOf(error) ?? '')
const raisedLike =
  (pattern: RegExp): ErrorTest =>
  (error) =>
    pattern.test(sqlStateOf(error) ?? '')

/** A serialisation failure or a deadlock. */
export const isRolledBack: ErrorTest = raised('40001', '40P01')
export const isNoTransaction: ErrorTest = raised('25P01')
/** An earlier flight on the connection failed before the Parse this statement relied on. */
export const isUnprepared: ErrorTest = raised('26000')
/** DDL changed the result type of a plan cached on the connection. */
export const isOutdatedPlan: ErrorTest = (error) =>
  sqlStateOf(error) === '0A000' && databaseMessage(error)?.includes('cached plan') === true
/** A cancel request may hit another statement on the same connection than it was meant for. */
export const isCanceledByRequest: ErrorTest = (error) =>
  sqlStateOf(error) === '57014' && databaseMessage(error)?.includes('user request') === true
/** PostgreSQL refuses new connections; the open ones still work. */
export const isTooManyClients: ErrorTest = raised('53300')
/** The database answers, but refuses the login. */
export const isLoginRefused: ErrorTest = raisedLike(/^(28|42501)/)
export const isSyntaxError: ErrorTest = raised('42601')
/** A write in a read-only transaction. */
export const isReadOnly: ErrorTest = raised('25006')
export const isMissingTable: ErrorTest = raised('42P01')
export const isMissingColumn: ErrorTest = raised('42703')
/**
 * A value of a type that is a name of an object, such as regclass, or an expression, such as jsonpath: its SQLSTATE is that of
 * a statement with such a name, but there is no position in a statement.
 */
const isBadName: ErrorTest = (error) => {
  const { position, where } = raisedBy(error) ?? {}
  if (position !== undefined || (where !== undefined && !/^(?:un)?named portal/.test(where))) return false
  return /^(?:42P01|42704|42883|42725|42601|42602|3F000)$/.test(sqlStateOf(error) ?? '')
}
/** The statement names a table, column or type that no longer exists. */
export const isOutdated: ErrorTest = (error) =>
  raisedBy(error)?.position !== undefined && raised('42P01', '42703', '42704')(error)
/** A function or operator. */
export const isMissingFunction: ErrorTest = (error) => raised('42883')(error) && !isBadName(error)
/** A function or operator that the statement itself needs, such as the comparison of a type that has none. */
export const isMissingOperator: ErrorTest = (error) => raised('42883')(error) && raisedBy(error)?.where === undefined
export const isAmbiguousFunction: ErrorTest = raised('42725')
/** A value that its type, or the domain of its type, does not take. */
export const isBadValue: ErrorTest = (error) => raisedLike(/^22|^23514$/)(error) || isBadName(error)
/** A row that does not fit its table or conflicts with another row of its statement. */
export const isBadRow: ErrorTest = raisedLike(/^(?:21|22|23|42804|44|P0001|54|XX000)/)
/** Raised by extensions and parsers that have no SQLSTATE of their own. */
export const isUnnamedError: ErrorTest = raised('XX000')
/** PostGIS has none for a geometry that it cannot read (XX000) or that does not fit the column (22023). */
export const isBadGeometry: ErrorTest = raised('XX000', '22023')
/** An earlier statement of the transaction failed. */
export const isAborted: ErrorTest = raised('25P02')
/** By its timeout or by a cancel request. */
export const isCanceled: ErrorTest = raised('57014')
/** It waited for a lock for longer than `lock_timeout`. */
export const isLockTimeout: ErrorTest = raised('55P03')
/** All of PostgreSQL stops, as when its log finds no room: what was about to be committed may be in the log or not. */
const isPanic: ErrorTest = (error) => raisedBy(error)?.severity === 'PANIC'
/** The connection broke or could not be opened. */
export const isConnectionLost: ErrorTest = (error) => {
  const state = sqlStateOf(error)
  if (isPanic(error)) return true
  return state === undefined ? isConnectionError(error) : state !== '08P01' && LOST.test(state)
}
/** PostgreSQL ended the session, and with it a transaction whose commit it had not begun. */
export const isEndedSession: ErrorTest = raised('57P01', '57P03')
/** A fault of the server, not of the statement: resources, shutdown, corruption. */
export const isServerTrouble: ErrorTest = raisedLike(/^(?:08|53|57|58|XX00[12])/)
/** Raised by svc.require_rows. */
export const isRowMissing: ErrorTest = raised('SV404')
/** Raised by svc.put_back. */
export const isTooMuch: ErrorTest = raised('SV413')
export const isUniqueViolation: ErrorTest = raised('23505')
/** Raised by svc.end_trial: the statements before it were allowed. */
export const isTrialEnd: ErrorTest = raised('SVF00')
/** Raised by svc.lock_refresh. */
export const isRefreshing: ErrorTest = raised('SV001')

/**
 * Conditions of appendix A of PostgreSQL's manual that clients get by name, because they concern what the client sent.
 * Others of class 22 are `data_exception`. Failures caused by the server's state get names of ours in `fromPg`:
 * `transaction_conflict`, `statement_timeout`, `database_unavailable`, `insufficient_storage`.
 */
const conditions: Readonly<Record<string, ErrorCode>> = {
  '21000': 'cardinality_violation',
  '22001': 'string_data_right_truncation',
  '22003': 'numeric_value_out_of_range',
  '22007': 'invalid_datetime_format',
  '22008': 'datetime_field_overflow',
  '22012': 'division_by_zero',
  '22021': 'character_not_in_repertoire',
  '22023': 'invalid_parameter_value',
  '2201B': 'invalid_regular_expression',
  '22P02': 'invalid_text_representation',
  '22P05': 'untranslatable_character',
  '428C9': 'generated_always',
  '42804': 'datatype_mismatch',
  '44000': 'with_check_option_violation',
  P0001: 'raise_exception',
}

const constraintFailures: Readonly<Record<string, [code: ErrorCode, message: string]>> = {
  '23505': ['unique_violation', 'unique constraint violation'],
  '23P01': ['exclusion_violation', 'exclusion constraint violation'],
  '23502': ['not_null_violation', 'missing required value'],
  '23514': ['check_violation', 'check constraint violation'],
  '23503': ['foreign_key_violation', 'foreign key violation'],
}

const TOO_COMPLEX: [code: ErrorCode, message: string] = ['query_too_complex', 'query is too complex']
const refusals: Readonly<Record<string, [code: ErrorCode, message: string]>> = {
  '42501': ['insufficient_privilege', 'insufficient permissions'],
  '42703': ['unknown_column', 'unknown column'],
  '42P01': ['collection_not_found', 'collection not found'],
  '54000': TOO_COMPLEX,
  '54001': TOO_COMPLEX, // stack depth
  '54011': TOO_COMPLEX,
  '54023': TOO_COMPLEX,
  '53100': ['insufficient_storage', 'the disk of the database is full'],
  '57014': ['statement_timeout', 'query timed out'],
  // Of svc.claim_answer().
  SVK01: ['in_progress', 'still in progress'],
  SVK02: ['already_done', 'already done'],
  SVK03: ['rate_limited', 'too many answers are kept'],
  SVK04: ['rate_limited', 'too many answers are kept'],
  // Of svc.take_upload() and svc.stored_upload().
  SVF03: ['quota_exceeded', 'quota exceeded'],
  SVF04: ['bucket_not_found', 'bucket not found'],
  SVF05: ['already_done', 'already done'],
  SVF07: ['insufficient_storage', 'insufficient storage'],
  [TOO_LARGE]: ['response_too_large', 'response too large'],
}

const OWN_WORDS = new Set(Object.values(refusals).map(([, message]) => message))

/** What PostgreSQL raised was told in words of ours: nothing that code of the database chose is in them. */
export const isInOwnWords = ({ message, data }: AppError): boolean => data === undefined && OWN_WORDS.has(message)

/** Serialisation failure, deadlock and lock_timeout. */
const CONFLICTS = new Set(['40001', '40P01', '55P03'])

/** Another transaction held the row for too long. */
export const lockedOut = (cause?: PgError): AppError =>
  unavailable('transaction conflict, please retry', 1, 'transaction_conflict', cause)

/** A write in a transaction that only reads; also as the cause of what `fromPg` made of it. */
export const isReadOnlyError = (thrown: unknown): boolean =>
  thrown instanceof Error &&
  ((thrown as PgError).code === '25006' || (thrown.cause as PgError | undefined)?.code === '25006')

const POSTGIS_SOURCE = /^(?:lwgeom|geography|gserialized|postgis)_/

/**
 * The only conversion of SQLSTATE to AppError. Errors that come neither from PostgreSQL nor from its connection, such as
 * a TypeError inside a transaction, are returned unchanged.
 */
export function fromPg(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || thrown instanceof AppError) return thrown
  const error: PgError = thrown
  if (error.isFateUnknown) return outcomeUnknown(error)
  const state = sqlStateOf(error)
  if (state === undefined) return isConnectionError(error) ? databaseUnavailable(error) : error
  return fromState(error, state)
}

function fromState(error: PgError, state: string): AppError {
  const refused = (code: ErrorCode, message: string): AppError => new AppError(code, message, { cause: error })
  const constraint = constraintFailures[state]
  if (constraint) return constraintFailure(error, constraint)
  if (isBadName(error)) return refused('invalid_parameter_value', `invalid value: ${error.message}`)
  if (state.startsWith('22')) return refused(conditions[state] ?? 'data_exception', describeBadValue(error))
  if (LOST.test(state) || isPanic(error)) return databaseUnavailable(error)
  const named = conditions[state]
  if (named) return refused(named, error.message)
  if (CONFLICTS.has(state)) return lockedOut(error)
  // A standby, or a database that its operator closed for writes.
  if (state === '25006') return unavailable('database takes no writes', 1, 'database_unavailable', error)
  // PostGIS has no SQLSTATE of its own for a geometry it cannot read, transform or compare.
  const isGeometry = state === 'XX000' && POSTGIS_SOURCE.test(error.file ?? '')
  if (isGeometry) return refused('invalid_geometry', 'geometry cannot be read, transformed or compared')
  return refused(...(refusals[state] ?? ['internal', 'internal error']))
}

function constraintFailure(error: PgError, [code, message]: [ErrorCode, string]): AppError {
  const key = code === 'not_null_violation' ? error.column : error.constraint
  const detail = code === 'not_null_violation' ? 'null value is not allowed' : safeDetail(error)
  return new AppError(code, message, { cause: error, ...(key && { data: { [key]: { code, message: detail } } }) })
}

/**
 * PostgreSQL prints the failing row for CHECK and NOT NULL, which may hold columns the caller cannot see. Inside of a function
 * it prints keys of whatever table the function may read.
 */
const safeDetail = ({ detail, message, where }: PgError): string =>
  detail && where === undefined && !detail.startsWith('Failing row') ? detail : message

/** A Map, because people choose the names of types. */
const expectations: ReadonlyMap<string, string> = new Map(
  Object.entries({
    uuid: 'expected xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx',
    smallint: 'expected a whole number from -32768 to 32767',
    integer: 'expected a whole number from -2147483648 to 2147483647',
    bigint: 'expected a whole number of 64 bits',
    numeric: 'expected a number',
    real: 'expected a number',
    'double precision': 'expected a number',
    boolean: 'expected true or false',
    date: 'expected YYYY-MM-DD',
    time: 'expected HH:MM:SS',
    'timestamp with time zone': 'expected an RFC 3339 date and time',
    'timestamp without time zone': 'expected an RFC 3339 date and time',
    timestamp: 'expected an RFC 3339 date and time',
    json: 'expected JSON',
    jsonb: 'expected JSON',
    bytea: 'expected hexadecimal text starting with \\x',
  }),
)

const NAMING_THEIR_RANGE: ReadonlySet<string> = new Set(['smallint', 'integer', 'bigint'])

/** `invalid <type> value` and what was expected; without the value itself. */
function describeBadValue(error: PgError): string {
  const { message } = error
  const tooLong = /^value too long for type (.+)$/.exec(message)
  if (tooLong) return `invalid ${tooLong[1]} value: too long`
  const type =
    /for type ([a-z][a-z0-9_ ]*(?:\(\d+(?:,\d+)?\))?(?:\[\])?)/i.exec(message)?.[1] ??
    /for enum ("?[^":]+"?)/.exec(message)?.[1]?.replaceAll('"', '') ??
    /^(smallint|integer|bigint|numeric|real|double precision|date\/time|date|timestamp|interval)\b/.exec(
      message,
    )?.[1] ??
    /^malformed (array|range|record) literal/.exec(message)?.[1] ??
    /^invalid (GeoJSON)/i.exec(message)?.[1] ??
    (message.includes('Unicode') || message.includes('byte sequence') ? 'text' : '')
  const outOfRange = error.code === '22003' || message.includes('out of range')
  const expected = expectations.get(type.trim())
  const isKnown = expected !== undefined && (!outOfRange || NAMING_THEIR_RANGE.has(type.trim()))
  const hint = isKnown ? expected : outOfRange ? 'out of range' : type === '' ? message : ''
  return `invalid${type ? ` ${type.trim()}` : ''} value${hint ? `: ${hint}` : ''}`
}
