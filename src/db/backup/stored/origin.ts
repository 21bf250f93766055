import type pg from 'pg'
import type { BackupDetails } from './records.ts'

/** Whose backups are whose: `server` is made with the database and goes with it into every copy. */
export type Origin = { server: string; systemId: string; database: string }

export async function originOf(client: pg.Client): Promise<Origin> {
  const { rows } = await client.query<Record<'server' | 'database', string | null>>(
    `select (select value #>> '{}' from svc.settings where key = 'server.id') as server, current_database() as database`,
  )
  const [row] = rows
  if (!row?.server || !row.database)
    throw new Error('the database has no server.id in svc.settings: start the server once')
  return { server: row.server, database: row.database, systemId: await systemIdOf(client) }
}

/** Empty where a managed service keeps this to itself. */
async function systemIdOf(client: pg.Client): Promise<string> {
  const answer = client.query<{ id: string }>('select system_identifier as id from pg_control_system()')
  const { rows } = await answer.catch(() => ({ rows: [] }))
  return rows[0]?.id ?? ''
}

/** Older backups do not name their server, and count as ours where the cluster and the database are the same. */
export function isOf({ server, systemId, database }: BackupDetails, origin: Origin): boolean {
  if (server !== undefined) return server === origin.server
  return systemId !== '' && systemId === origin.systemId && database === origin.database
}
