import type { DatabaseRole } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { findFunctions, isVisible, mayExecute } from '../../db/schema/lookup.ts'
import type { Fn, Parameter, Schema } from '../../db/schema/snapshot.ts'
import { type ComponentNames, Enums, ref } from './component-names.ts'
import { DRY_RUN, failures, jsonContent } from './operation.ts'
import { nameOf } from './table.ts'
import { type EnumRef, valueType } from './value-type.ts'

/** The OpenAPI entries of a function for one role. */
export type FunctionEntry = { path: string; item: object; enums: Iterable<[string, t.JsonSchema]> }

/** Undefined if this role may not call it by name. */
export function functionEntry(
  schema: Schema,
  overloads: readonly Fn[],
  role: DatabaseRole,
  names: ComponentNames,
): FunctionEntry | undefined {
  const callable = overloads.filter(
    (fn) => mayExecute(fn, role) && fn.parameters.every((parameter) => parameter.name !== ''),
  )
  const [first] = callable
  if (first === undefined) return undefined
  const enums = new Enums(names)
  const isFirst = findFunctions(schema, first.name).includes(first)
  const name = isFirst ? first.name : `${first.schema}.${first.name}`
  const results = callable
    .filter((fn) => !fn.isVoid)
    .map((fn) => {
      const isShown = fn.rowOf !== undefined && isVisible(fn.rowOf, role)
      return resultOf(fn, isShown ? ref(names.of('Row', nameOf(schema, fn.rowOf))) : undefined, enums.ref)
    })
  const post = {
    tags: ['functions'],
    summary: first.comment?.split('\n')[0] ?? `Call ${name}`,
    ...(first.comment !== undefined && { description: first.comment }),
    requestBody: { content: jsonContent(either(callable.map((fn) => argumentsOf(fn, enums.ref)))) },
    responses: {
      200: { description: 'What it returns', content: jsonContent(either([...results, ref(DRY_RUN)])) },
      ...(callable.some((fn) => fn.isVoid) && { 204: { description: 'No content' } }),
      ...failures,
    },
  }
  return { path: `/api/rpc/${encodeURIComponent(name)}`, item: { post }, enums: enums.components }
}

const either = (types: readonly t.JsonSchema[]): t.JsonSchema =>
  types.length === 1 && types[0] ? types[0] : t.union(...types)

function argumentsOf({ parameters }: Fn, enumRef: EnumRef): t.JsonSchema {
  const required = parameters.filter(({ hasDefault }) => !hasDefault).map(({ name }) => name)
  const typeOf = (parameter: Parameter): t.JsonSchema => t.nullable(valueType(parameter, enumRef))
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map((parameter) => [parameter.name, typeOf(parameter)])),
    ...(required.length > 0 && { required }),
  }
}

/** `row`: the component of the table whose rows it returns. */
function resultOf(fn: Fn, row: t.JsonSchema | undefined, enumRef: EnumRef): t.JsonSchema {
  const { returnsRow, returnsSet, resultForm } = fn
  if (returnsSet) return t.array(row ?? rowOfColumns(fn, enumRef))
  if (returnsRow) return t.nullable(row ?? rowOfColumns(fn, enumRef))
  return t.nullable(resultForm ? valueType(resultForm, enumRef) : t.string())
}

/** A row of the columns that the function declares; a set of scalars has one that is called as the function. */
function rowOfColumns({ name, columns, returnsRow, resultForm }: Fn, enumRef: EnumRef): t.JsonSchema {
  const scalar = resultForm && !returnsRow ? [{ ...resultForm, name }] : []
  const shown = columns.length > 0 ? columns : scalar
  if (shown.length === 0) return t.row
  const nameAt = (i: number): string => shown[i]?.name || `column${i + 1}`
  return {
    type: 'object',
    properties: Object.fromEntries(shown.map((column, i) => [nameAt(i), t.nullable(valueType(column, enumRef))])),
    required: shown.map((_, i) => nameAt(i)),
  }
}
