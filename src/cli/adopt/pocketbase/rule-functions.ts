import type { CollectionField } from './collections.ts'
import { RuleError } from './rule-parser.ts'

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** Of `strftime`: those that mean one thing in both. */
const FORMATS: ReadonlyMap<string, (moment: string) => string> = new Map<string, (moment: string) => string>([
  ...(
    [
      ['Y', 'YYYY'],
      ['m', 'MM'],
      ['d', 'DD'],
      ['H', 'HH24'],
      ['M', 'MI'],
      ['S', 'SS'],
      ['f', 'SS.MS'],
      ['j', 'DDD'],
      ['F', 'YYYY-MM-DD'],
      ['T', 'HH24:MI:SS'],
      ['R', 'HH24:MI'],
    ] as const
  ).map(([sign, pattern]): [string, (moment: string) => string] => [
    sign,
    (moment) => `to_char(${moment}, '${pattern}')`,
  ]),
  ['w', (moment) => `extract(dow from ${moment})::int::text`],
  ['s', (moment) => `floor(extract(epoch from ${moment}))::bigint::text`],
])

/** The text that SQLite's `strftime` makes of a moment in UTC; unknown where there is none. */
export function formattedMoment(format: string, moment: string): string {
  const parts: string[] = []
  for (const [all, sign] of format.matchAll(/%(.)|[^%]+|%/gsu)) {
    if (sign === undefined) {
      if (all === '%') throw new RuleError(`the format ${format} cannot be said here`)
      parts.push(literal(all))
    } else if (sign === '%') parts.push(`'%'`)
    else {
      const made = FORMATS.get(sign)
      if (!made) throw new RuleError(`%${sign} of strftime cannot be said here`)
      parts.push(made(moment))
    }
  }
  // A text alone would be known where there is no moment.
  return `(case when ${moment} is not null then ${parts.join(' || ') || `''`} end)`
}

/** `geoDistance(lonA, latA, lonB, latB)` in km, on a sphere. */
export const distanceInKm = (lonA: string, latA: string, lonB: string, latB: string): string =>
  `(6371 * acos(least(1, greatest(-1, cos(radians(${latA})) * cos(radians(${latB})) * cos(radians(${lonB}) - radians(${lonA})) + sin(radians(${latA})) * sin(radians(${latB}))))))`

/** The rest of a path below a JSON field; numbers mean elements there and may be keys here. */
export function insideJson(at: string, field: CollectionField, path: readonly string[]): string {
  if (!path.every((key) => /^[A-Za-z_]\w*$/.test(key)))
    throw new RuleError(`${field.name} holds JSON, of which elements by number cannot be said here`)
  return path.length === 0 ? at : `(${at} #> ${literal(`{${path.join(',')}}`)})`
}

/**
 * SQLite gives what JSON holds its own type: a text equals only texts, true is 1. Of an object or list it has the text, which is
 * written in another way here: unknown, so that neither = nor != holds.
 */
export function jsonEquality(isEqual: boolean, json: string, constant: string | number | boolean | null): string {
  const kind = `jsonb_typeof(${json})`
  const holds =
    constant === null
      ? `${kind} = 'null'`
      : typeof constant === 'string'
        ? `${kind} = 'string' and ${json} #>> '{}' = ${constant.includes('\\') ? `E${literal(constant.replaceAll('\\', '\\\\'))}` : literal(constant)}`
        : [
            `${kind} = 'number' and (case when ${kind} = 'number' then ${json}::numeric end) = ${Number(constant)}`,
            ...(Number(constant) === 1 || Number(constant) === 0
              ? [`${json} = '${Number(constant) === 1}'::jsonb`]
              : []),
          ].join(' or ')
  const known = `coalesce(${holds}, ${constant === null})`
  return `(case when ${kind} in ('object', 'array') then null else ${isEqual ? '' : 'not '}${known} end)`
}
