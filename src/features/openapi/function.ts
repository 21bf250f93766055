import type { DatabaseRole } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { findFunctions, isVisible, mayExecute } from '../../db/schema/lookup.ts'
import type { Fn, Schema } from '../../db/schema/snapshot.ts'
import { type ComponentNames, ref } from './component-names.ts'
import { failures, jsonContent } from './operation.ts'
import { nameOf } from './table.ts'
import { parameterType, resultType } from './value-type.ts'

/** The path of a function, if this role may call it by name. */
export function functionPath(
  schema: Schema,
  overloads: readonly Fn[],
  role: DatabaseRole,
  names: ComponentNames,
): [string, object] | undefined {
  const callable = overloads.filter(
    (fn) => mayExecute(fn, role) && fn.parameters.every((parameter) => parameter.name !== ''),
  )
  const [first] = callable
  if (first === undefined) return undefined
  const isFirst = findFunctions(schema, first.name).includes(first)
  const name = isFirst ? first.name : `${first.schema}.${first.name}`
  const path = `/api/rpc/${encodeURIComponent(name)}`
  const results = callable.filter((fn) => !fn.isVoid).map((fn) => resultOf(schema, fn, role, names))
  const post = {
    tags: ['functions'],
    summary: first.comment?.split('\n')[0] ?? `Call ${name}`,
    requestBody: { content: jsonContent(either(callable.map(argumentsOf))) },
    responses: {
      ...(results.length > 0 && { 200: { description: 'What it returns', content: jsonContent(either(results)) } }),
      ...(callable.some((fn) => fn.isVoid) && { 204: { description: 'No content' } }),
      ...failures,
    },
  }
  return [path, { post }]
}

const either = (types: readonly t.JsonSchema[]): t.JsonSchema =>
  types.length === 1 && types[0] ? types[0] : t.union(...types)

function argumentsOf({ parameters }: Fn): t.JsonSchema {
  const required = parameters.filter(({ hasDefault, isVariadic }) => !hasDefault && !isVariadic).map(({ name }) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map((parameter) => [parameter.name, parameterType(parameter)])),
    ...(required.length > 0 && { required }),
  }
}

function resultOf(schema: Schema, fn: Fn, role: DatabaseRole, names: ComponentNames): t.JsonSchema {
  const { rowOf, returnsRow, returnsSet, returnType } = fn
  const row = rowOf && isVisible(rowOf, role) ? ref(names.of('Row', nameOf(schema, rowOf))) : t.row
  if (returnsSet) return t.array(returnsRow ? row : t.row)
  return returnsRow ? t.nullable(row) : resultType(returnType)
}
