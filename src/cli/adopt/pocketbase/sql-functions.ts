import type { Collection } from './collections.ts'

/** The schema of helper functions; it is not exposed. */
export const HELPERS = 'svc_pocketbase'

const DATE = `'YYYY-MM-DD HH24:MI:SS.MS"Z"'`
const at = (moment: string): string => `to_char(${moment}, ${DATE})`
const UTC = `(now() at time zone 'UTC')`
const start = (unit: string, plus = ''): string => at(`date_trunc('${unit}', ${UTC})${plus}`)
const part = (unit: string): { sql: string; kind: 'number' } => ({
  sql: `extract(${unit} from ${UTC})::double precision`,
  kind: 'number',
})
const text = (sql: string): { sql: string; kind: 'text' } => ({ sql, kind: 'text' })

/** PocketBase keeps moments as text of UTC with milliseconds, and compares them as text. */
export const MACROS: ReadonlyMap<string, { sql: string; kind: 'text' | 'number' }> = new Map<
  string,
  { sql: string; kind: 'text' | 'number' }
>([
  ['@now', text(at(UTC))],
  ['@yesterday', text(at(`${UTC} - interval '1 day'`))],
  ['@tomorrow', text(at(`${UTC} + interval '1 day'`))],
  ['@todayStart', text(start('day'))],
  ['@todayEnd', text(start('day', " + interval '1 day' - interval '1 millisecond'"))],
  ['@monthStart', text(start('month'))],
  ['@monthEnd', text(start('month', " + interval '1 month' - interval '1 millisecond'"))],
  ['@yearStart', text(start('year'))],
  ['@yearEnd', text(start('year', " + interval '1 year' - interval '1 millisecond'"))],
  ['@second', { sql: `floor(extract(second from ${UTC}))::double precision`, kind: 'number' }],
  ['@minute', part('minute')],
  ['@hour', part('hour')],
  ['@day', part('day')],
  ['@month', part('month')],
  ['@year', part('year')],
  ['@weekday', part('dow')],
])

const SAFE = 'set search_path = pg_catalog, pg_temp'

/** In the order in which one of several profiles of an account is the caller's. */
export function helperFunctions(
  profiles: readonly Collection[],
  quoted: (name: string) => string,
  literal: (text: string) => string,
): string[] {
  const record =
    profiles.length === 0
      ? `select null::text as id, null::text as name where false`
      : profiles
          .map(
            (one, index) =>
              `select p.id, ${literal(one.name)} as name, ${index} as place from public.${quoted(one.name)} p where p.account_id = svc.uid()`,
          )
          .join(' union all ')
  const first = (column: string): string =>
    profiles.length === 0 ? `select null::text` : `select r.${column} from (${record}) r order by r.place limit 1`
  const caller = (name: string, type: string, body: string): string =>
    `create or replace function ${HELPERS}.${name}() returns ${type} language sql stable parallel safe security definer ${SAFE} as $f$ ${body} $f$`
  return [
    caller('auth_id', 'text', first('id')),
    caller('auth_collection', 'text', first('name')),
    caller(
      'auth_verified',
      'boolean',
      `select u.email_verified_at is not null from svc.users u where u.id = svc.uid() and ${HELPERS}.auth_id() is not null`,
    ),
    caller('auth_email', 'text', `select svc.email() where ${HELPERS}.auth_id() is not null`),
    `create or replace function ${HELPERS}.date_text(t timestamptz) returns text language sql stable parallel safe ${SAFE} as $f$ select coalesce(to_char(t at time zone 'UTC', ${DATE}), '') $f$`,
    // As Go writes JSON.
    `create or replace function ${HELPERS}.json_text(list text[]) returns text language sql stable parallel safe ${SAFE} as $f$ select replace(replace(replace(array_to_json(list)::text, '&', '\\u0026'), '<', '\\u003c'), '>', '\\u003e') $f$`,
    // A text without a wildcard is looked for anywhere.
    `create or replace function ${HELPERS}.like_pattern(given text) returns text language sql immutable parallel safe ${SAFE} as $f$ select case when given ~ '(^|[^\\\\])%' then given else '%' || regexp_replace(regexp_replace(given, '\\\\([\\\\%_])', '\\1', 'g'), '([\\\\%_])', '\\\\\\1', 'g') || '%' end $f$`,
    `create or replace function ${HELPERS}.new_id() returns text language sql volatile ${SAFE} as $f$ select string_agg(substr('abcdefghijklmnopqrstuvwxyz0123456789', 1 + (get_byte(b, i) % 36), 1), '') from (select uuid_send(gen_random_uuid()) as b) u, generate_series(0, 15) i where i <> 6 $f$`,
    // By 28 random bits for each letter.
    `create or replace function ${HELPERS}.random_of(letters text, count int) returns text language sql volatile ${SAFE} as $f$ select coalesce(string_agg(substr(letters, 1 + (('x' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 7))::bit(28)::int % char_length(letters)), 1), ''), '') from generate_series(1, count) $f$`,
  ]
}
