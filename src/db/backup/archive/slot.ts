import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { originOf } from '../stored/origin.ts'
import { readRecord, writeRecord } from '../stored/records.ts'
import { SealError, type Seals } from '../stored/seal.ts'
import { type ArchiveRecord, archiveRecordName } from '../stored/wal.ts'
import type { BackupTarget } from '../target/target.ts'

export const SLOT = 'svc_archive'
/** One archive for each database, from whatever process. */
export const ARCHIVE_LOCK = 8_121_002
const SETTING = 'backup.archive'

export type OpenSlot = { record: ArchiveRecord; from: string; isNew: boolean }

type SlotRow = { restart_lsn: string | null; wal_status: string | null; plugin: string | null }

/**
 * The slot, and the archive in the target that it continues. A slot that is new, was lost, or belongs to another target, timeline
 * or key begins a new archive, which needs a base backup of its own.
 */
export async function openSlot(client: pg.Client, target: BackupTarget, seals: Seals): Promise<OpenSlot> {
  const facts = await factsOf(client)
  const found = await slotOf(client)
  const { rows } = await client.query<{ archive: string }>(
    `select value #>> '{}' as archive from svc.settings where key = $1`,
    [SETTING],
  )
  const archive = rows[0]?.archive
  const record = archive && found ? await openArchive(target, seals, archive) : undefined
  const isSame =
    record !== undefined &&
    record.system_id === facts.system_id &&
    record.server === facts.server &&
    record.timeline === facts.timeline &&
    found?.restart_lsn &&
    found.wal_status !== 'lost'
  if (isSame && found.restart_lsn) return { record, from: found.restart_lsn, isNew: false }
  if (found) await client.query('select pg_drop_replication_slot($1)', [SLOT])
  await client.query('select pg_create_physical_replication_slot($1, true)', [SLOT])
  const made = await slotOf(client)
  if (!made?.restart_lsn) throw new Error('PostgreSQL made a slot without a position')
  const fresh: ArchiveRecord = {
    archive: `${new Date().toISOString().slice(0, 10)}-${randomBytes(4).toString('hex')}`,
    ...facts,
    start: made.restart_lsn,
    created_at: new Date().toISOString(),
  }
  await writeRecord(target, seals, archiveRecordName(fresh.archive), fresh)
  await client.query(
    `insert into svc.settings (key, value) values ($1, to_jsonb($2::text))
     on conflict (key) do update set value = excluded.value, updated_at = now()`,
    [SETTING, fresh.archive],
  )
  return { record: fresh, from: made.restart_lsn, isNew: true }
}

/** Undefined where it is not, or another key sealed it: what is written now could not be read together with what is there. */
export async function openArchive(
  target: BackupTarget,
  seals: Seals,
  archive: string,
): Promise<ArchiveRecord | undefined> {
  try {
    return await readRecord<ArchiveRecord>(target, seals, archiveRecordName(archive))
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

async function factsOf(
  client: pg.Client,
): Promise<Required<Pick<ArchiveRecord, 'server' | 'system_id' | 'timeline' | 'segment_size'>>> {
  const { rows } = await client.query<{ system_id: string; timeline: string; segment_size: string }>(
    `select (select system_identifier from pg_control_system()) as system_id,
       ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int as timeline,
       pg_size_bytes(current_setting('wal_segment_size')) as segment_size`,
  )
  const [row] = rows
  if (!row) throw new Error('PostgreSQL does not describe itself')
  const { server } = await originOf(client)
  return { ...row, server, timeline: Number(row.timeline), segment_size: Number(row.segment_size) }
}

async function slotOf(client: pg.Client): Promise<SlotRow | undefined> {
  const { rows } = await client.query<SlotRow>(
    'select restart_lsn, wal_status, plugin from pg_replication_slots where slot_name = $1',
    [SLOT],
  )
  return rows[0]
}

/** The archive under way, for a backup that it goes on from. */
export async function currentArchive(client: pg.Client): Promise<string | null> {
  const { rows } = await client.query<{ archive: string }>(
    `select value #>> '{}' as archive from svc.settings
     where key = $1 and exists (select from pg_replication_slots where slot_name = $2)`,
    [SETTING, SLOT],
  )
  return rows[0]?.archive ?? null
}

/** The log is sent to roles that may replicate. */
export async function requireReplication(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ user: string; may: string }>(
    'select rolname as user, rolreplication or rolsuper as may from pg_roles where rolname = current_user',
  )
  if (rows[0]?.may === 't') return
  const user = rows[0]?.user ?? ''
  throw new Error(
    `backup.continuous needs a role that may replicate, and ${user} may not: alter role "${user}" replication`,
  )
}

const MOST_KEPT = '8GB'
const KEEP = 'max_slot_wal_keep_size'

/** Of the embedded PostgreSQL: an archive that is away does not fill the disk. */
export async function boundSlots(client: pg.Client): Promise<void> {
  if ((await keptSize(client)) !== '-1') return
  await client.query(`alter system set ${KEEP} = '${MOST_KEPT}'`)
  await client.query('select pg_reload_conf()')
}

const keptSize = async (client: pg.Client): Promise<string> => {
  const { rows } = await client.query<Record<typeof KEEP, string>>(`show ${KEEP}`)
  return rows[0]?.[KEEP] ?? ''
}

export async function slotWarnings(client: pg.Client): Promise<string[]> {
  const size = await keptSize(client)
  if (size === '-1') {
    return [`${KEEP} is not set: while the archive is away, PostgreSQL keeps its log without end`]
  }
  return []
}
