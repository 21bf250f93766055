import type pg from 'pg'
import { openConnection } from '../../protocol/driver.ts'
import { ReplicationConnection } from '../../protocol/replication.ts'
import type { Embedded } from '../../setup/embedded/embedded.ts'
import { Ident } from '../../sql.ts'
import type { StoredBackup } from '../stored/stored-backup.ts'
import { type LogicalDefinitions, type LogicalTable, MOST_DEFINITION_BYTES } from './definitions.ts'
import { copiedTables } from './rows.ts'
import { DEFINITIONS, ROWS } from './take-logical.ts'

const quote = (name: string): string => new Ident(name).quoted

export const readDefinitions = async (stored: StoredBackup): Promise<LogicalDefinitions> =>
  JSON.parse(await stored.text(DEFINITIONS, MOST_DEFINITION_BYTES)) as LogicalDefinitions

/** Fills a new cluster from a logical copy; resolves to the address of its database, as the server of the copy had it. */
export async function loadLogical(
  cluster: Embedded,
  stored: StoredBackup,
  definitions: LogicalDefinitions,
  say: (line: string) => void,
): Promise<string> {
  const { database, user } = stored.details
  const first = await openConnection({ url: cluster.url, applicationName: 'svc restore' })
  try {
    await makeRoles(first, definitions, user)
    if (database !== 'postgres') {
      await first.query(`create database ${quote(database)} template template0 encoding 'UTF8' owner ${quote(user)}`)
    }
  } finally {
    await first.end().catch(() => {})
  }
  const url = addressOf(cluster.url, database)
  const client = await openConnection({ url, applicationName: 'svc restore' })
  try {
    say('making tables')
    // pg_dump leaves out the schema that every database has, unless it was changed.
    if (/^CREATE SCHEMA public;$/m.test(definitions.before)) await client.query('drop schema if exists public')
    await client.query(definitions.before)
    say('loading rows')
    await loadRows(url, stored, definitions.tables)
    for (const { name, value, isCalled } of definitions.sequences) {
      await client.query('select setval($1::regclass, $2::bigint, $3::boolean)', [name, value, isCalled])
    }
    say('making indexes and constraints')
    await client.query(definitions.after)
    // pg_dump leaves the search path empty.
    await client.query('reset all')
    for (const name of definitions.views) await client.query(`refresh materialized view ${name}`)
    await client.query('analyze')
  } finally {
    await client.end().catch(() => {})
  }
  return url
}

/** Passwords do not come along: the server gives its own roles new ones, and others get theirs from the operator. */
async function makeRoles(client: pg.Client, { roles }: LogicalDefinitions, user: string): Promise<void> {
  const { rows } = await client.query<{ name: string }>('select rolname as name from pg_roles')
  const known = new Set(rows.map(({ name }) => name))
  const option = (isOn: boolean, word: string): string => (isOn ? word : `no${word}`)
  for (const { name, inherits, bypassesRls, logsIn } of roles) {
    if (known.has(name)) continue
    const rights = [option(inherits, 'inherit'), option(bypassesRls, 'bypassrls'), option(logsIn, 'login')]
    await client.query(`create role ${quote(name)} ${rights.join(' ')}`)
    known.add(name)
  }
  // As in the cluster of its own that every embedded server has.
  await client.query(`${known.has(user) ? 'alter' : 'create'} role ${quote(user)} superuser login`)
  for (const { name, memberOf } of roles) {
    for (const group of memberOf) {
      if (known.has(group) && name !== user) await client.query(`grant ${quote(group)} to ${quote(name)}`)
    }
  }
}

async function loadRows(url: string, stored: StoredBackup, tables: readonly LogicalTable[]): Promise<void> {
  const connection = await ReplicationConnection.openPlain({ url, applicationName: 'svc restore' })
  try {
    await connection.rows(`set client_encoding = utf8; set session_replication_role = replica`)
    for await (const { table, bytes } of copiedTables(stored.open(ROWS), tables.length)) {
      const { name, owner, columns } = tables[table] as LogicalTable
      // Checks and generated columns run functions that the owner wrote, and run them as the owner.
      await connection.rows(`set role ${owner}`)
      const list = columns.length > 0 ? `(${columns.join(', ')})` : ''
      await connection.copyIn(`copy ${name} ${list} from stdin`, bytes)
    }
  } finally {
    await connection.end()
  }
}

const addressOf = (url: string, database: string): string => {
  const [head = '', parameters] = url.split('?')
  return `${head.replace(/\/[^/]*$/, '')}/${encodeURIComponent(database)}${parameters ? `?${parameters}` : ''}`
}
