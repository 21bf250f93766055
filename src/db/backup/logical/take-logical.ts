import { openConnection } from '../../protocol/driver.ts'
import { ReplicationConnection } from '../../protocol/replication.ts'
import {
  type LogicalDefinitions,
  type LogicalTable,
  readExtensionNames,
  readFilledViews,
  readRoles,
  readSequences,
  readTables,
} from './definitions.ts'
import { definitionsOf } from './pg-dump.ts'
import { framesOf } from './rows.ts'

export const DEFINITIONS = 'definitions'
export const ROWS = 'rows'

type LogicalOptions = {
  url: string
  signal: AbortSignal | undefined
  store: (name: string, bytes: AsyncIterable<Buffer>, expected: number) => Promise<void>
  onBytes: (bytes: number, expected: number) => void
}

/** A copy that needs no replication: all tables by COPY and their definitions by pg_dump, both of one exported snapshot. */
export async function takeLogical({ url, signal, store, onBytes }: LogicalOptions): Promise<{ lsn: string | null }> {
  const client = await openConnection({ url, applicationName: 'svc backup' })
  const rows = await ReplicationConnection.openPlain({ url, applicationName: 'svc backup' })
  const stop = (): void => rows.destroy()
  signal?.addEventListener('abort', stop, { once: true })
  try {
    await client.query('set row_security = off; set statement_timeout = 0; set idle_in_transaction_session_timeout = 0')
    await client.query('begin isolation level repeatable read, read only')
    const { rows: exported } = await client.query<{ snapshot: string; lsn: string; bytes: string }>(
      `select pg_export_snapshot() as snapshot, pg_current_wal_lsn()::text as lsn,
         pg_database_size(current_database()) as bytes`,
    )
    const { snapshot = '', lsn = null, bytes = '0' } = exported[0] ?? {}
    // Before the definitions: pg_dump holds no lock once it is done, and this transaction keeps those of its reads.
    const tables = await readTables(client)
    for (const { name } of tables) await client.query(`lock table only ${name} in access share mode`)
    const definitions: LogicalDefinitions = {
      version: 1,
      roles: await readRoles(client),
      extensions: await readExtensionNames(client),
      before: await definitionsOf(url, snapshot, 'pre-data', signal),
      after: await definitionsOf(url, snapshot, 'post-data', signal),
      tables,
      sequences: await readSequences(client),
      views: await readFilledViews(client),
    }
    await store(DEFINITIONS, single(Buffer.from(JSON.stringify(definitions))), 0)
    await rows.rows('set row_security = off; set statement_timeout = 0; set client_encoding = utf8')
    await rows.rows(`begin isolation level repeatable read, read only; set transaction snapshot '${snapshot}'`)
    const expected = Number(bytes)
    await store(
      ROWS,
      counted(allRows(rows, tables), (count) => onBytes(count, expected)),
      expected,
    )
    await rows.end()
    return { lsn }
  } catch (error) {
    // PostgreSQL may be sending rows, and would not hear of an end.
    rows.destroy()
    throw error
  } finally {
    signal?.removeEventListener('abort', stop)
    await client.end().catch(() => {})
  }
}

async function* allRows(connection: ReplicationConnection, tables: readonly LogicalTable[]): AsyncGenerator<Buffer> {
  for (const [number, { name, columns, condition }] of tables.entries()) {
    const source = `select ${columns.join(', ')} from only ${name} ${condition}`
    yield* framesOf(number, copied(connection, `copy (${source}) to stdout`))
  }
}

async function* copied(connection: ReplicationConnection, command: string): AsyncGenerator<Buffer> {
  for await (const event of connection.run(command)) if (event.kind === 'data') yield event.bytes
}

async function* counted(source: AsyncIterable<Buffer>, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const part of source) {
    onBytes(part.length)
    yield part
  }
}

async function* single(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}
