import { Ident, type Sql, sql } from '../../sql.ts'
import type { JsonForm, Schema } from '../snapshot.ts'

type Form = Pick<JsonForm, 'isGeometry' | 'isGeography' | 'srid' | 'castType'>

export const isSpatial = (type: Pick<Form, 'isGeometry' | 'isGeography'>): boolean =>
  type.isGeometry || type.isGeography

/** The reference system of GeoJSON (RFC 7946 §4). */
export const WGS84 = 4326

/** A function or type of PostGIS, wherever it is installed. */
export const postGis = (schema: Schema, name: string): Ident => new Ident(schema.postGIS?.schema ?? 'public', name)

/** In WGS 84, with neither crs nor bbox: a geometry is its type and coordinates. `value` is read several times. */
export function toGeoJson(schema: Schema, { isGeography, srid }: Form, value: Sql): Sql {
  const write = postGis(schema, 'st_asgeojson')
  const asIs = sql`${write}(${value}, 15, 0)::pg_catalog.json`
  if (srid === WGS84 || isGeography) return asIs
  // A transformation there and back is exact to twelve places, a tenth of a micrometre.
  const transformed = sql`${write}(${postGis(schema, 'st_transform')}(${value}, ${WGS84}::int4), 12, 0)::pg_catalog.json`
  if (srid > 0) return transformed
  // A type that declares no reference system takes values of every one.
  const has = sql`coalesce(${postGis(schema, 'st_srid')}(${value}), 0)`
  return sql`case when ${has} in (0, ${WGS84}::int4) then ${asIs} else ${transformed} end`
}

/** The text of a GeoJSON geometry as a value of the type; a `crs` in it counts for nothing. */
export function fromGeoJson(schema: Schema, { isGeography, srid, castType }: Form, text: Sql): Sql {
  const read = sql`${postGis(schema, 'st_setsrid')}(${postGis(schema, 'st_geomfromgeojson')}(${text}), ${WGS84}::int4)`
  const placed = srid > 0 && srid !== WGS84 ? sql`${postGis(schema, 'st_transform')}(${read}, ${srid}::int4)` : read
  return isGeography ? sql`${placed}::${castType}` : placed
}
