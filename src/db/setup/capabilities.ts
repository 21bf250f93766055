import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { sql } from '../sql.ts'

export type Capability = {
  /** The extension's name. */
  name: string
  serves: string
  /** What there is where it is missing. */
  without: string
  /** `available`: PostgreSQL has it, this database does not use it yet. */
  state: 'present' | 'available' | 'missing'
  version: string | null
}

/** Extensions that something here uses. */
export const EXTENSION_USES = [
  { name: 'pg_trgm', serves: 'fuzzy search', without: 'search finds whole words only' },
  { name: 'vector', serves: 'vector search', without: 'vectors in real[] are searched, without an index' },
  { name: 'postgis', serves: 'spatial queries', without: 'no spatial queries' },
]

/** Which optional extensions this database can use, and the version of PostgreSQL. */
export async function capabilitiesOf(db: Db): Promise<{ serverVersion: string; capabilities: Capability[] }> {
  const rows = await db.rows<{
    name: string
    default_version: string
    installed_version: string | null
    server: string
  }>(
    SYSTEM,
    sql`select s.server, e.name, e.default_version, e.installed_version
        from (select current_setting('server_version') as server) s
        left join pg_available_extensions e on e.name = any(${EXTENSION_USES.map(({ name }) => name)}::text[])`,
  )
  const capabilities = EXTENSION_USES.map((extension): Capability => {
    const row = rows.find((found) => found.name === extension.name)
    if (!row) return { ...extension, state: 'missing', version: null }
    if (row.installed_version === null) return { ...extension, state: 'available', version: row.default_version }
    return { ...extension, state: 'present', version: row.installed_version }
  })
  return { serverVersion: rows[0]?.server.split(' ')[0] ?? '', capabilities }
}
