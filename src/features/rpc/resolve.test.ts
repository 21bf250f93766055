import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fn, Parameter } from '../../db/schema/snapshot.ts'
import { Ident } from '../../db/sql.ts'
import { resolveOverload } from './resolve.ts'

/** `a` is required, `a?` has a default. */
const fn = (...parameters: string[]): Fn => ({
  schema: 'public',
  name: 'f',
  ident: new Ident('public', 'f'),
  oid: 1,
  comment: undefined,
  parameters: parameters.map(
    (spec, position): Parameter => ({
      name: spec.replace('?', ''),
      ident: new Ident(spec.replace('?', '')),
      type: 'integer',
      castType: new Ident('pg_catalog', 'int4'),
      isGeometry: false,
      isGeography: false,
      isVector: false,
      srid: 0,
      baseType: 'int4',
      typeKind: 'b',
      enumValues: undefined,
      isArray: false,
      element: undefined,
      position,
      hasDefault: spec.endsWith('?'),
      isVariadic: false,
      default: undefined,
    }),
  ),
  returnType: 'integer',
  returnsSet: false,
  isVoid: false,
  returnsRow: false,
  rowOf: undefined,
  columns: [],
  resultForm: undefined,
  volatility: 'volatile',
  executableBy: new Set(),
})

const chosen = (candidates: Fn[], supplied: string[]): string => {
  try {
    return resolveOverload(candidates, supplied)
      .parameters.map(({ name }) => name)
      .join()
  } catch (error) {
    return (error as Error).message
  }
}

test('the fewest parameters that fit win', () => {
  assert.equal(chosen([fn('a'), fn('a', 'b?')], ['a']), 'a')
  assert.equal(chosen([fn('a'), fn('a', 'b?')], ['a', 'b']), 'a,b')
  assert.equal(chosen([fn()], []), '')
})

test('a tie is ambiguous', () => {
  assert.equal(chosen([fn('a', 'b?'), fn('a', 'c?')], ['a']), 'ambiguous call to function "f"')
  assert.equal(chosen([fn('a', 'b?'), fn('a', 'c?')], ['a', 'c']), 'a,c')
})

test('a misfit speaks of the closest overload', () => {
  assert.equal(chosen([fn('a', 'b')], ['a']), 'missing required argument "b" for function "f"')
  assert.equal(chosen([fn('a?')], ['z']), 'unknown argument "z" for function "f"')
  assert.equal(chosen([fn('x'), fn('a', 'b')], ['a']), 'missing required argument "b" for function "f"')
})

test('unnamed parameters cannot be matched, named overloads beside them can', () => {
  assert.equal(chosen([fn('')], []), 'function "f" has unnamed parameters; cannot match by name')
  assert.equal(chosen([fn(''), fn('a')], ['a']), 'a')
})
