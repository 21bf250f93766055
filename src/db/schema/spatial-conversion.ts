import { Ident, type Sql, sql } from '../sql.ts'
import type { JsonForm, Schema } from './snapshot.ts'

type Form = Pick<JsonForm, 'isGeometry' | 'isGeography' | 'srid' | 'castType'>

export const isSpatial = (type: Pick<Form, 'isGeometry' | 'isGeography'>): boolean =>
  type.isGeometry || type.isGeography

/** The reference system of GeoJSON (RFC 7946 §4). */
export const WGS84 = 4326

/** The coordinates of the column are those of GeoJSON. */
export const isInDegrees = ({ isGeometry, srid }: Pick<Form, 'isGeometry' | 'srid'>): boolean =>
  isGeometry && (srid === WGS84 || srid === 0)

/** A function or type of PostGIS, with the schema it is installed in. */
export const postGis = (schema: Schema, name: string): Ident => new Ident(schema.postGIS?.schema ?? 'public', name)

/** GeoJSON in WGS 84, without crs and bbox. `value` is evaluated several times. */
export function toGeoJson(schema: Schema, { isGeography, srid }: Form, value: Sql): Sql {
  const write = postGis(schema, 'st_asgeojson')
  const asIs = sql`${write}(${value}, 15, 0)::pg_catalog.json`
  if (srid === WGS84 || isGeography) return asIs
  // A transformation and its inverse are exact to twelve decimals, a tenth of a micrometre.
  const transformed = sql`${write}(${postGis(schema, 'st_transform')}(${value}, ${WGS84}::int4), 12, 0)::pg_catalog.json`
  if (srid > 0) return transformed
  // A type without a declared reference system takes values of any.
  const has = sql`coalesce(${postGis(schema, 'st_srid')}(${value}), 0)`
  return sql`case when ${has} in (0, ${WGS84}::int4) then ${asIs} else ${transformed} end`
}

/** The text of a GeoJSON geometry as a value of the type; its `crs` is ignored. */
export function fromGeoJson(schema: Schema, { isGeography, srid, castType }: Form, text: Sql): Sql {
  const read = sql`${postGis(schema, 'st_setsrid')}(${postGis(schema, 'st_geomfromgeojson')}(${text}), ${WGS84}::int4)`
  const converted = srid > 0 && srid !== WGS84 ? sql`${postGis(schema, 'st_transform')}(${read}, ${srid}::int4)` : read
  return isGeography ? sql`${converted}::${castType}` : converted
}
