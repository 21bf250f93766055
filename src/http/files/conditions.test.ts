import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../core/errors.ts'
import { isNotModified, rangeOf, requireUnchanged } from './conditions.ts'

const version = { etag: '"abc"', modifiedAt: new Date('2026-01-02T03:04:05.678Z') }
const range = (text: string, size = 10, more = {}) => rangeOf({ range: text, ...more }, size, version)
const status = (attempt: () => unknown): number => {
  try {
    attempt()
  } catch (error) {
    if (error instanceof AppError) return error.status
  }
  return 0
}

test('a range is exact, cut at the end of the file, or counted from it', () => {
  assert.deepEqual(range('bytes=0-0'), { start: 0, end: 0 })
  assert.deepEqual(range('bytes=5-'), { start: 5, end: 9 })
  assert.deepEqual(range('bytes=5-999999999999'), { start: 5, end: 9 })
  assert.deepEqual(range('bytes=-1'), { start: 9, end: 9 })
  assert.deepEqual(range('bytes=-99'), { start: 0, end: 9 })
})

test('what is no range means the whole file', () => {
  for (const text of ['bytes=5-2', 'bytes=a-b', 'items=0-1', 'bytes=-', 'bytes=', 'bytes=0-1,3-4', '0-1', '']) {
    assert.equal(range(text), undefined, text)
  }
  assert.equal(range(`bytes=${'0-,'.repeat(1000)}0-`), undefined)
})

test('a range beyond the file is 416 and tells its size', () => {
  for (const [text, size] of [
    ['bytes=10-', 10],
    ['bytes=999999999999-', 10],
    ['bytes=-0', 10],
    ['bytes=0-', 0],
    ['bytes=-5', 0],
  ] as const) {
    assert.equal(
      status(() => range(text, size)),
      416,
      text,
    )
  }
})

test('If-Range gives the part of the same version only, and never trusts a date', () => {
  assert.deepEqual(range('bytes=0-1', 10, { 'if-range': '"abc"' }), { start: 0, end: 1 })
  for (const tag of ['"other"', 'W/"abc"', version.modifiedAt.toUTCString()]) {
    assert.equal(range('bytes=0-1', 10, { 'if-range': tag }), undefined)
  }
})

test('a version the client has is not sent again; the tag wins over the date', () => {
  for (const tag of ['"abc"', 'W/"abc"', '"x", "abc"', '*']) assert.ok(isNotModified({ 'if-none-match': tag }, version))
  assert.ok(!isNotModified({ 'if-none-match': '"x"', 'if-modified-since': 'Fri, 01 Jan 2027 00:00:00 GMT' }, version))
  assert.ok(isNotModified({ 'if-modified-since': 'Fri, 02 Jan 2026 03:04:05 GMT' }, version))
  assert.ok(!isNotModified({ 'if-modified-since': 'Fri, 02 Jan 2026 03:04:04 GMT' }, version))
  assert.ok(!isNotModified({ 'if-modified-since': 'yesterday' }, version))
})

test('whoever names another version is refused, and a weak tag never matches', () => {
  for (const tag of ['"x"', 'W/"abc"']) {
    assert.equal(
      status(() => requireUnchanged({ 'if-match': tag }, version)),
      412,
    )
  }
  for (const tag of ['"abc"', '"x","abc"', '*']) requireUnchanged({ 'if-match': tag }, version)
})
