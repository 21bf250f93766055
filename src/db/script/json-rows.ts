import type pg from 'pg'

/** Converts the text PostgreSQL sent to JSON text without losing digits. */
type ToJson = (text: string) => string
type Rows = readonly (readonly (string | null)[])[]

const raw: ToJson = (text) => text
const quoted: ToJson = (text) => JSON.stringify(text)
const bool: ToJson = (text) => (text === 't' ? 'true' : 'false')
/** NaN and the infinities have no JSON number. */
const float: ToJson = (text) => (/^-?\d/.test(text) ? text : JSON.stringify(text))

/** RFC 3339 as to_json() writes it; `infinity` stays a word. */
const timestamptz: ToJson = (text) =>
  JSON.stringify(
    text.replace(
      /^(\S+) ([\d:.]+)([+-]\d\d)(:[\d:]+)?/,
      (_all, date, time, hours, minutes = ':00') => `${date}T${time}${hours}${minutes}`,
    ),
  )
const timestamp: ToJson = (text) => JSON.stringify(text.replace(/^(\d\S+) (\d\d:)/, '$1T$2'))

const byOid = new Map<number, ToJson>([
  [16, bool],
  [20, raw], // int8
  [21, raw],
  [23, raw],
  [700, float],
  [701, float],
  [1700, float], // numeric
  [114, raw], // json
  [3802, raw], // jsonb
  [1184, timestamptz],
  [1114, timestamp],
])
// bytea, char, name, text, oid, xid, inet and friends, varchar, date, time, interval, timetz, uuid
for (const oid of [17, 18, 19, 25, 26, 28, 650, 829, 869, 1042, 1043, 1082, 1083, 1186, 1266, 2950]) {
  byOid.set(oid, quoted)
}

type Structured = { oid: string; typname: string; schema: string; name: string }

/** Types that row_to_json() does not write as plain text: arrays, composites, and those with a cast to json. */
const STRUCTURED = `
  select t.oid::text as oid, t.typname, pg_catalog.quote_ident(n.nspname) as schema,
         pg_catalog.format_type(t.oid, null) as name
  from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  where t.oid = any($1::pg_catalog.oid[]) and t.typtype <> 'p'
    and (t.typtype = 'c' or t.typcategory = 'A' or t.typname in ('geometry', 'geography', 'vector', 'halfvec')
         or exists (select from pg_catalog.pg_cast c where c.castsource = t.oid and c.casttarget = 114))`

/**
 * The JSON text of each row. Types unknown to this file are looked up, and values of structured types are sent back to
 * PostgreSQL, which alone can parse them, once per column.
 */
export async function toJsonRows(client: pg.Client, fields: readonly pg.FieldDef[], rows: Rows): Promise<string[]> {
  if (rows.length === 0) return []
  const structured = await structuredTypes(client, fields)
  const columns: string[][] = []
  for (const [i, { dataTypeID }] of fields.entries()) {
    const type = structured.get(dataTypeID)
    const texts = rows.map((row) => row[i] ?? null)
    columns.push(
      (type && (await structuredJson(client, type, texts))) ?? converted(byOid.get(dataTypeID) ?? quoted, texts),
    )
  }
  return rows.map((_, at) => `[${columns.map((column) => column[at]).join(',')}]`)
}

const converted = (toJson: ToJson, texts: readonly (string | null)[]): string[] =>
  texts.map((text) => (text === null ? 'null' : toJson(text)))

async function structuredTypes(client: pg.Client, fields: readonly pg.FieldDef[]): Promise<Map<number, Structured>> {
  const unknown = [...new Set(fields.map((field) => field.dataTypeID))].filter((oid) => !byOid.has(oid))
  if (unknown.length === 0) return new Map()
  const { rows } = await client.query<Structured>(STRUCTURED, [unknown])
  return new Map(rows.map((row) => [Number(row.oid), row]))
}

/** Undefined where the session's role may not use the type; then the text is shown. */
async function structuredJson(
  client: pg.Client,
  { typname, schema, name }: Structured,
  texts: readonly (string | null)[],
): Promise<string[] | undefined> {
  if (typname === 'vector' || typname === 'halfvec') return converted(raw, texts)
  const isSpatial = typname === 'geometry' || typname === 'geography'
  const json = isSpatial ? `${schema}.st_asgeojson(v::${name})` : `pg_catalog.to_json(v::${name})::pg_catalog.text`
  try {
    const { rows } = await client.query<{ json: string | null }>(
      `select ${json} as json from pg_catalog.unnest($1::pg_catalog.text[]) with ordinality as t(v, n) order by n`,
      [texts],
    )
    return rows.map((row) => row.json ?? 'null')
  } catch {
    return undefined
  }
}
