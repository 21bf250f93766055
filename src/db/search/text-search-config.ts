import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { sql } from '../sql.ts'
import type { TextSearchConfig } from './search-text.ts'

/** The configuration named by `api.text_search_config`, with or without a schema. */
export async function findTextSearchConfig(db: Db, configured: string): Promise<TextSearchConfig> {
  const [config] = await db.rows<TextSearchConfig>(
    SYSTEM,
    sql`select n.nspname as schema, c.cfgname as name
      from pg_catalog.pg_ts_config c join pg_catalog.pg_namespace n on n.oid = c.cfgnamespace
      where n.nspname || '.' || c.cfgname = ${configured} or c.cfgname = ${configured}
      order by c.cfgname = ${configured} and pg_catalog.pg_ts_config_is_visible(c.oid) desc, n.nspname = 'pg_catalog' desc, n.nspname
      limit 1`,
  )
  if (!config) throw new Error(`api.text_search_config: the database has no text search configuration "${configured}"`)
  return config
}
