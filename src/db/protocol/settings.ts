import type pg from 'pg'
import { raisedBy } from '../pg-errors.ts'

/**
 * What statements mean and how values are written, whatever the database, its roles or its server have set. Sent at the login,
 * which comes before all of these; `RESET ALL` comes back to it.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  array_nulls: 'on',
  backslash_quote: 'safe_encoding',
  bytea_output: 'hex',
  DateStyle: 'ISO, MDY',
  extra_float_digits: '1',
  IntervalStyle: 'postgres',
  quote_all_identifiers: 'off',
  row_security: 'on',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
  transform_null_equals: 'off',
  xmlbinary: 'base64',
  xmloption: 'content',
}

/** Arguments of set_config. */
export const EACH_SETTING: readonly string[] = Object.entries(SETTINGS).map(([name, value]) => `'${name}','${value}'`)
const SET_ALL = `select ${EACH_SETTING.map((setting) => `pg_catalog.set_config(${setting},false)`).join(',')}`

/** Of an unknown parameter, or one that may not be set: PostgreSQL's own codes, and that of poolers. */
const REFUSALS = new Set(['08P01', '0A000', '22023', '42501', '42704'])

/** The URLs behind which something does not pass settings on to PostgreSQL. */
const withoutSettings = new Set<string>()

export const takesSettings = (url: string): boolean => !withoutSettings.has(url)

type Login = { readonly url: string; readonly replication?: string }

/** Lets a client send the settings when it logs in. */
export function sendSettings(client: pg.Client, { url, replication }: Login): void {
  if (replication || !takesSettings(url)) return
  const inside = client as unknown as { getStartupConf(): Record<string, string> }
  const others = inside.getStartupConf.bind(client)
  inside.getStartupConf = () => ({ ...others(), ...SETTINGS })
}

/** Poolers refuse settings that they do not know: then the login is tried without. */
export async function logIn<T>(url: string, open: () => Promise<T>): Promise<T> {
  if (!takesSettings(url)) return open()
  try {
    return await open()
  } catch (error) {
    if (!REFUSALS.has(raisedBy(error)?.code ?? '')) throw error
    withoutSettings.add(url)
    return open().catch((again: unknown) => {
      withoutSettings.delete(url)
      throw again
    })
  }
}

/** Sets them in the session where they did not come with the login. */
export async function setWhereMissing(client: pg.Client, { url, replication }: Login): Promise<void> {
  if (!replication && !takesSettings(url)) await client.query(SET_ALL)
}

/** Some poolers take settings and drop them, which nothing but a look at PostgreSQL shows. */
export async function requireSettings(client: pg.Client, url: string): Promise<void> {
  const { rows } = await client.query<{ source: string }>(
    "select source from pg_catalog.pg_settings where name = 'array_nulls'",
  )
  if (rows[0]?.source === 'client') return
  withoutSettings.add(url)
  await client.query(SET_ALL)
}
