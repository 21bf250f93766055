import { Ident } from '../../sql.ts'
import type { ColumnType, Fn, Parameter, Table, ValueType } from '../snapshot.ts'
import type { CatalogFunction } from './catalogue.ts'

/** OUT, INOUT and TABLE (pg_proc.proargmodes). */
const OUTPUTS: ReadonlySet<string> = new Set(['o', 'b', 't'])
const VOLATILITY = { i: 'immutable', s: 'stable', v: 'volatile' } as const

export function functionOf(
  row: CatalogFunction,
  types: ReadonlyMap<string, ColumnType>,
  tables: ReadonlyMap<number, Table>,
): Fn {
  const [anon, authenticated] = row.executable
  const resultType = types.get(row.result)
  return {
    schema: row.schema,
    name: row.name,
    ident: new Ident(row.schema, row.name),
    oid: row.oid,
    comment: row.comment ?? undefined,
    parameters: parametersOf(row, types),
    returnType: row.returnType,
    returnsSet: row.returnsSet,
    isVoid: row.isVoid,
    returnsRow: row.returnsRow,
    rowOf: row.rowOf === null ? undefined : tables.get(row.rowOf),
    columns: (row.arguments ?? []).flatMap(([name, typeKey, mode]) => {
      const type = types.get(typeKey)
      return type && OUTPUTS.has(mode) ? { name, ...valueType(type) } : []
    }),
    resultForm: resultType && valueType(resultType),
    volatility: VOLATILITY[row.volatility],
    executableBy: new Set([
      ...(anon ? ['svc_anon' as const] : []),
      ...(authenticated ? ['svc_authenticated' as const] : []),
    ]),
  }
}

/** IN, INOUT and VARIADIC. OUT and TABLE columns are part of the result. */
function parametersOf(row: CatalogFunction, types: ReadonlyMap<string, ColumnType>): Parameter[] {
  const inputs = (row.arguments ?? []).filter(([, , mode]) => mode === 'i' || mode === 'b' || mode === 'v')
  const firstDefault = inputs.length - row.defaults // PostgreSQL allows defaults only at the end
  return inputs.flatMap(([name, typeKey, mode, defaultExpression], index) => {
    const type = types.get(typeKey)
    if (type === undefined) return []
    return {
      name,
      ident: new Ident(name),
      ...valueType(type),
      position: index + 1,
      hasDefault: index >= firstDefault,
      isVariadic: mode === 'v',
      default: defaultExpression ?? undefined,
    }
  })
}

const valueType = (facts: ColumnType): ValueType => ({
  type: facts.type,
  baseType: facts.baseType,
  typeKind: facts.typeKind,
  isArray: facts.isArray,
  element: facts.element,
  enumValues: facts.enumValues,
  isGeometry: facts.isGeometry,
  isGeography: facts.isGeography,
  isVector: facts.isVector,
  srid: facts.srid,
  castType: facts.castType,
})
