import { Ident, integerLiteral, join, OR, type Sql, sql } from '../../sql.ts'
import type { Column, Schema } from '../snapshot.ts'
import { isInDegrees, postGis, WGS84 } from '../spatial-conversion.ts'
import type { BoxArgs, SpatialArg, SpatialFilter, SpatialName } from './parse.ts'

const SYSTEM = sql`4326`

/** SQL over one spatial column of the row `row`. */
export class SpatialSql {
  readonly #schema: Schema
  readonly #column: Column
  readonly #value: Sql

  constructor(schema: Schema, column: Column, row: Ident) {
    this.#schema = schema
    this.#column = column
    this.#value = sql`${row}.${column.ident}`
  }

  /** Whether the row fulfils the filter: a condition for the index, and an exact one unless the first is exact. */
  conditions(filter: SpatialFilter): Sql[] {
    const indexed = this.candidates(filter)
    const isExact =
      filter.name === 'near' ? this.#column.isGeography : filter.name === 'bbox' && isInDegrees(this.#column)
    if (indexed && isExact) return [indexed]
    return [...(indexed ? [indexed] : []), this.#exact(filter)]
  }

  /** A condition that all matching rows fulfil, written so that a GiST index of the column can be used. */
  candidates(filter: SpatialFilter): Sql | undefined {
    if (filter.name === 'near' && this.#column.isGeography) return this.#isNear(filter)
    if (filter.candidates.length === 0) return undefined
    return this.#overlaps(
      this.#value,
      filter.candidates.map((box) => this.#indexBox(box)),
    )
  }

  /** Metres to a point. */
  distance(lng: Sql, lat: Sql): Sql {
    return sql`${this.#fn('st_distance')}(${this.#onGlobe}, ${this.#point(lng, lat)})`
  }

  #exact(filter: SpatialFilter): Sql {
    const [first] = filter.values
    switch (filter.name) {
      case 'near':
        return this.#isNear(filter)
      case 'bbox':
        return this.#overlaps(
          this.#inDegrees,
          filter.boxes.map((box) => this.#envelope(box)),
        )
      case 'within':
      case 'intersects': {
        const compare = this.#fn(filter.name === 'within' ? 'st_coveredby' : 'st_intersects')
        return this.#comparable(sql`${compare}(${this.#inDegrees}, ${this.#requested(filter.name, first)})`)
      }
    }
  }

  #isNear({ values: [lng = null, lat = null, meters = null] }: SpatialFilter): Sql {
    const point = this.#point(sql`${lng}`, sql`${lat}`)
    return sql`${this.#fn('st_dwithin')}(${this.#onGlobe}, ${point}, ${meters}::float8)`
  }

  #point(lng: Sql, lat: Sql): Sql {
    const point = sql`${this.#fn('st_makepoint')}(${lng}::float8, ${lat}::float8)`
    return sql`${this.#fn('st_setsrid')}(${point}, ${SYSTEM})::${this.#fn('geography')}`
  }

  /**
   * The geometry of the request, parsed once per statement. Areas whose edges cross are refused: comparing them fails or,
   * like making them valid, may take hours that no timeout interrupts.
   */
  #requested(name: SpatialName, text: SpatialArg = null): Sql {
    const geometry = sql`${this.#fn('st_setsrid')}(${this.#fn('st_geomfromgeojson')}(${text}::text), ${SYSTEM})`
    const refusal = `invalid ${name} parameter: edges cross each other`
    return sql`(select case when ${this.#fn('st_isvalid')}(svc_requested.g) then svc_requested.g
      when svc.refuse(${refusal}::text) then null end from (select ${geometry} as g offset 0) as svc_requested)`
  }

  #overlaps(value: Sql, boxes: readonly Sql[]): Sql {
    const { postGIS } = this.#schema
    const overlaps = boxes.map((box) => sql`${value} operator(${new Ident(postGIS?.schema ?? 'public')}.&&) ${box}`)
    return sql`(${join(overlaps, OR)})`
  }

  #envelope([west = null, south = null, east = null, north = null]: BoxArgs): Sql {
    return sql`${this.#fn('st_makeenvelope')}(${west}::float8, ${south}::float8, ${east}::float8, ${north}::float8, ${SYSTEM})`
  }

  /** The box in the column's reference system, its edges divided into degrees because they become curves. */
  #indexBox(box: BoxArgs): Sql {
    if (isInDegrees(this.#column)) return this.#envelope(box)
    const stepped = sql`${this.#fn('st_segmentize')}(${this.#envelope(box)}, 1)`
    return this.#column.isGeography
      ? sql`${stepped}::${this.#fn('geography')}`
      : sql`${this.#fn('st_transform')}(${stepped}, ${integerLiteral(this.#column.srid)})`
  }

  get #inDegrees(): Sql {
    const { isGeography, srid } = this.#column
    if (isGeography) return sql`${this.#value}::${this.#fn('geometry')}`
    if (srid === WGS84) return this.#value
    return srid === 0
      ? sql`${this.#fn('st_setsrid')}(${this.#value}, ${SYSTEM})`
      : sql`${this.#fn('st_transform')}(${this.#value}, ${SYSTEM})`
  }

  get #onGlobe(): Sql {
    return this.#column.isGeography ? this.#value : sql`${this.#inDegrees}::${this.#fn('geography')}`
  }

  /** Rows with invalid areas never match, because one of them would fail the whole search; see `#requested`. */
  #comparable(comparison: Sql): Sql {
    if (!MAY_BE_INVALID.has(this.#column.geometryType)) return comparison
    return sql`case when ${this.#fn('st_isvalid')}(${this.#inDegrees}) then ${comparison} else false end`
  }

  #fn(name: string): Ident {
    return postGis(this.#schema, name)
  }
}

const MAY_BE_INVALID: ReadonlySet<string> = new Set(['Geometry', 'Polygon', 'MultiPolygon', 'GeometryCollection'])
