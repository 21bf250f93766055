import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../core/errors.ts'
import { asConnectionError, fromPg, isConnectionLost } from './pg-errors.ts'

const raised = (code: string, more: object = {}) =>
  Object.assign(new Error('said'), { code, severity: 'ERROR', ...more })

const errorOf = (error: unknown) => {
  const result = fromPg(error)
  assert.ok(result instanceof AppError)
  return [result.status, result.errorCode, result.message]
}

test('a refusal of PostgreSQL has PostgreSQL’s name for it', () => {
  const cases: [state: string, status: number, error: string, message: string][] = [
    ['23505', 409, 'unique_violation', 'unique constraint violation'],
    ['23P01', 409, 'exclusion_violation', 'exclusion constraint violation'],
    ['23502', 422, 'not_null_violation', 'missing required value'],
    ['23514', 422, 'check_violation', 'check constraint violation'],
    ['23503', 400, 'foreign_key_violation', 'foreign key violation'],
    ['22P02', 400, 'invalid_text_representation', 'invalid value: said'],
    ['22012', 400, 'division_by_zero', 'invalid value: said'],
    ['2202E', 400, 'data_exception', 'invalid value: said'],
    ['P0001', 400, 'raise_exception', 'said'],
    ['44000', 400, 'with_check_option_violation', 'said'],
    ['42501', 403, 'insufficient_privilege', 'insufficient permissions'],
    ['42703', 400, 'unknown_column', 'unknown column'],
    ['40P01', 503, 'transaction_conflict', 'transaction conflict, please retry'],
    ['57014', 504, 'statement_timeout', 'query timed out'],
    ['53100', 507, 'insufficient_storage', 'the disk of the database is full'],
    ['57P01', 503, 'database_unavailable', 'database unavailable'],
    ['XX000', 500, 'internal', 'internal error'],
    ['SV123', 500, 'internal', 'internal error'],
  ]
  for (const [state, ...answer] of cases) assert.deepEqual(errorOf(raised(state)), answer, state)
})

test('a lost connection is 503, an unexpected error is returned unchanged', () => {
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })
  assert.equal(fromPg(reset), reset)
  assert.equal(isConnectionLost(reset), false)
  assert.deepEqual(errorOf(asConnectionError(reset)), [503, 'database_unavailable', 'database unavailable'])
  assert.equal(isConnectionLost(fromPg(reset)), true)
  for (const error of [new TypeError('x is undefined'), new AppError('timeout', 'late'), 'text', undefined]) {
    assert.equal(fromPg(error), error)
    assert.equal(isConnectionLost(error), false)
  }
})

test('a PostgreSQL that stops because its log finds no room is unavailable, and not full alone', () => {
  const panic = raised('53100', { severity: 'PANIC' })
  assert.deepEqual(
    [errorOf(panic), isConnectionLost(panic)],
    [[503, 'database_unavailable', 'database unavailable'], true],
  )
  assert.equal(isConnectionLost(raised('53100')), false)
})
