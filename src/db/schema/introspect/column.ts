import { Ident, operatorIn } from '../../sql.ts'
import type { Column, ColumnType, Generation, Operators, Privilege, Privileges } from '../snapshot.ts'
import type { Catalog, CatalogColumn, CatalogType, PrivilegeBits } from './catalogue.ts'

const TEXT_TYPES = new Set(['text', 'varchar', 'bpchar'])

export function typeFacts(type: CatalogType, extensions: Catalog['extensions']): ColumnType {
  const isOf = (extension: string, ...names: string[]) =>
    names.includes(type.baseName) &&
    extensions.some(({ name, schema }) => name === extension && schema === type.baseSchema)
  const isBuiltIn = type.baseSchema === 'pg_catalog'
  const isArray = type.baseCategory === 'A'
  const isGeometry = isOf('postgis', 'geometry')
  const isGeography = isOf('postgis', 'geography')
  const isVector = isOf('vector', 'vector', 'halfvec')
  const isSpatial = isGeometry || isGeography
  return {
    type: type.formatted,
    castType: new Ident(type.schema, type.name),
    baseType: type.baseName,
    typeKind: type.baseKind,
    isArray,
    element: elementOf(type),
    isText: isBuiltIn && TEXT_TYPES.has(type.baseName),
    isGeometry,
    isGeography,
    isVector,
    vectorDim: isVector && type.baseModifier > 0 ? type.baseModifier : undefined,
    ...(isSpatial
      ? spatialFacts(type.baseModifier, isGeography)
      : { geometryType: '', srid: 0, coordDimension: undefined }),
    jsonType: isArray || isVector ? 'array' : isSpatial ? 'object' : jsonType(type, isBuiltIn),
    enumValues: type.labels ?? undefined,
    operators: operatorsOf(type),
    readsBack: type.readsBack,
    notNull: type.notNull,
  }
}

const elementOf = ({ element }: CatalogType): ColumnType['element'] =>
  element ? { baseType: element.name, typeKind: element.kind, isArray: element.category === 'A' } : undefined

const operatorsOf = ({ operators }: CatalogType): Operators | undefined =>
  operators
    ? Object.fromEntries(Object.entries(operators).map(([op, [schema, name]]) => [op, operatorIn(schema, name)]))
    : undefined

function jsonType(type: CatalogType, isBuiltIn: boolean): Column['jsonType'] {
  if (type.baseKind === 'c') return 'object'
  if (!isBuiltIn) return 'string'
  return JSON_TYPES.get(type.baseName) ?? 'string'
}

const JSON_TYPES = new Map<string, Column['jsonType']>([
  ['bool', 'boolean'],
  ['int2', 'integer'],
  ['int4', 'integer'],
  ['int8', 'integer'],
  ['oid', 'integer'],
  ['float4', 'number'],
  ['float8', 'number'],
  ['numeric', 'number'],
  ['json', 'object'],
  ['jsonb', 'object'],
  ['record', 'object'],
])

/** By the number of the type in PostGIS. */
const GEOMETRY_TYPES = (
  'Geometry Point LineString Polygon MultiPoint MultiLineString MultiPolygon GeometryCollection ' +
  'CircularString CompoundCurve CurvePolygon MultiCurve MultiSurface PolyhedralSurface Triangle Tin'
).split(' ')

/**
 * PostGIS packs srid (21 bits, signed), type (6), Z and M (1 each) into the type modifier (liblwgeom.h, TYPMOD_GET_*).
 * Decoded here, because postgis_typmod_srid() and the like exist only where PostGIS is installed.
 */
function spatialFacts(
  modifier: number,
  isGeography: boolean,
): Pick<Column, 'geometryType' | 'srid' | 'coordDimension'> {
  if (modifier < 0) return { geometryType: 'Geometry', srid: isGeography ? 4326 : 0, coordDimension: 2 }
  const srid = ((modifier & 0x0fffff00) - (modifier & 0x10000000)) >> 8
  return {
    geometryType: GEOMETRY_TYPES[(modifier & 0xfc) >> 2] ?? 'Geometry',
    srid,
    coordDimension: 2 + ((modifier & 2) >> 1) + (modifier & 1),
  }
}

const NOT_NULL = 1
const IDENTITY_ALWAYS = 2
const IDENTITY_BY_DEFAULT = 4
const GENERATED = 8

export function columnOf(
  row: CatalogColumn,
  types: ReadonlyMap<string, ColumnType>,
  primaryKey: ReadonlySet<number>,
  ofTable: Privileges<ColumnPrivilege>,
): Column | undefined {
  const [position, name, typeKey, flags, defaultExpression, comment, bits, generation] = row
  const type = types.get(typeKey)
  if (type === undefined) return undefined // dropped while the catalogue was read
  // Written out: spreading `type` into each of fifty thousand columns takes over 1.5 s of processor time; the whole
  // snapshot takes 0.25 s like this.
  return {
    name,
    ident: new Ident(name),
    position,
    type: type.type,
    castType: type.castType,
    baseType: type.baseType,
    typeKind: type.typeKind,
    isArray: type.isArray,
    element: type.element,
    notNull: type.notNull,
    nullable: (flags & NOT_NULL) === 0 && !type.notNull,
    default: defaultExpression ?? undefined,
    comment: comment ?? undefined,
    isPrimaryKey: primaryKey.has(position),
    isGenerated: (flags & (IDENTITY_ALWAYS | GENERATED)) !== 0,
    generation: generation ? generationOf(generation) : undefined,
    isIdentity: (flags & (IDENTITY_ALWAYS | IDENTITY_BY_DEFAULT)) !== 0,
    isText: type.isText,
    isGeometry: type.isGeometry,
    isGeography: type.isGeography,
    isVector: type.isVector,
    vectorDim: type.vectorDim,
    geometryType: type.geometryType,
    srid: type.srid,
    coordDimension: type.coordDimension,
    jsonType: type.jsonType,
    enumValues: type.enumValues,
    operators: type.operators,
    readsBack: type.readsBack,
    privileges: bits === null ? ofTable : columnPrivileges(bits),
  }
}

const generationOf = ([definition, expression, isVirtual, reads]: NonNullable<CatalogColumn[7]>): Generation => ({
  definition,
  expression,
  isVirtual,
  reads: reads ?? [],
})

type ColumnPrivilege = Exclude<Privilege, 'delete'>

const BITS = { select: 1, insert: 2, update: 4, delete: 8 } as const

/** All combinations, made once and shared by the columns. */
const sets = Array.from(
  { length: 16 },
  (_, bits): ReadonlySet<Privilege> =>
    new Set((Object.keys(BITS) as Privilege[]).filter((privilege) => (bits & BITS[privilege]) !== 0)),
)
const setOf = (bits: number): ReadonlySet<Privilege> => sets[bits & 15] ?? new Set()

export const tablePrivileges = ([anon, authenticated]: PrivilegeBits): Privileges<Privilege> => ({
  svc_anon: setOf(anon),
  svc_authenticated: setOf(authenticated),
})

export const columnPrivileges = ([anon, authenticated]: PrivilegeBits): Privileges<ColumnPrivilege> =>
  tablePrivileges([anon & 7, authenticated & 7]) as Privileges<ColumnPrivilege>
