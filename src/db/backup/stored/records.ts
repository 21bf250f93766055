import { randomBytes } from 'node:crypto'
import { readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import type { BackupTarget } from '../target/target.ts'
import { SealError, type Seals } from './seal.ts'

/** `sealed`: its records cannot be opened with the key that is known here. */
export type BackupState = 'running' | 'good' | 'failed' | 'sealed'

/** A backup as it is listed. `from` and `to` are positions in the log (LSN). */
export type BackupRecord = {
  id: string
  state: BackupState
  kind: 'physical' | 'logical'
  started_at: string
  finished_at: string | null
  bytes: number
  /** Whose it is; unknown in older backups, and in sealed ones. */
  server?: string
  from: string | null
  to: string | null
  verified_at?: string
  verification?: string
  error?: string
}

/** What a backup keeps about itself beyond that. */
export type BackupDetails = BackupRecord & {
  version: 1
  /** Of PostgreSQL. */
  major: number
  systemId: string
  timeline: number
  segmentSize: number
  /** The database the server uses, and its superuser. */
  database: string
  user: string
  /** Objects of the backup beside its records, in the order they are restored. */
  objects: readonly string[]
  /** Blobs: `copied` to a folder of the target, or only `listed` because they lie in S3. */
  files: { kind: 'copied' | 'listed' | 'none'; count: number; bytes: number; folder?: string }
  /** Which archive goes on where this backup ends. */
  archive: string | null
  /** When the database ended its part. */
  consistent_at: string | null
  touched_at: string
  /** Who writes it; unknown in older backups. */
  writer?: { machine: string; pid: number }
  app: string
  /** Extensions of the server's database; unknown in older backups. */
  extensions?: readonly string[]
  /** Of the machine, whose added extensions can be used by another one of the same kind. */
  platform?: string
}

/** Of this machine: a library runs on others of the same kind. */
export const PLATFORM = `${process.platform}-${process.arch}`

/** This process, and where its number means it: a container has numbers of its own. */
export const WRITER = { machine: `${hostname()} ${processNumbers()}`, pid: process.pid }

function processNumbers(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return '' // not Linux
  }
}

/** Small JSON; a list of tablespaces at most. */
const MOST_RECORD_BYTES = 2 ** 20
/** A writer says so often that it is alive. */
export const TOUCH_MS = 10_000
const ABANDONED_MS = 6 * TOUCH_MS
const ID = /^\d{8}t\d{6}z-[0-9a-f]{6}$/
const RECORD = /^backups\/([^/]+)\/(begun|done|failed|verified)$/

/** In the order of time. */
export const newBackupId = (now = new Date()): string =>
  `${now
    .toISOString()
    .replace(/[-:]|\.\d+/g, '')
    .toLowerCase()}-${randomBytes(3).toString('hex')}`

export const objectOf = (id: string, name: string): string => `backups/${id}/${name}`

export async function writeRecord(target: BackupTarget, seals: Seals, name: string, value: unknown): Promise<void> {
  const sealed = await seals.sealText(name, JSON.stringify(value))
  await target.put(name, once(sealed))
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

export async function readRecord<T>(target: BackupTarget, seals: Seals, name: string): Promise<T | undefined> {
  const stored = await target.get(name)
  return stored && (JSON.parse(await seals.openText(name, stored, MOST_RECORD_BYTES)) as T)
}

/** All backups of a target, oldest first. One whose records cannot be opened is in the list as sealed. */
export async function listBackups(target: BackupTarget, seals: Seals): Promise<BackupDetails[]> {
  const records = new Map<string, Set<string>>()
  for await (const { name } of target.list('backups/')) {
    const [, id = '', kind = ''] = RECORD.exec(name) ?? []
    if (!ID.test(id)) continue
    records.set(id, (records.get(id) ?? new Set()).add(kind))
  }
  const ids = [...records.keys()].sort()
  const all = await Promise.all(ids.map((id) => readBackup(target, seals, id, records.get(id) ?? new Set())))
  return all.filter((one) => one !== undefined)
}

async function readBackup(target: BackupTarget, seals: Seals, id: string, kinds: ReadonlySet<string>) {
  const name = (['done', 'failed', 'begun'] as const).find((kind) => kinds.has(kind))
  if (!name) return undefined
  try {
    const details = await readRecord<BackupDetails>(target, seals, objectOf(id, name))
    if (!details || details.id !== id || !Array.isArray(details.objects)) return undefined
    const verified = kinds.has('verified')
      ? await readRecord<Pick<BackupRecord, 'verified_at' | 'verification'>>(target, seals, objectOf(id, 'verified'))
      : undefined
    return withState({ ...details, ...verified }, name)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return sealed(id, error)
  }
}

function withState(details: BackupDetails, name: 'done' | 'failed' | 'begun'): BackupDetails {
  if (name === 'done') return { ...details, state: 'good' }
  if (name === 'failed') return { ...details, state: 'failed' }
  const isRecent = Date.now() - Date.parse(details.touched_at) < ABANDONED_MS
  return isRecent && mayBeAlive(details.writer)
    ? { ...details, state: 'running' }
    : { ...details, state: 'failed', error: 'interrupted' }
}

/** Only a process of this machine can be known to be gone. */
function mayBeAlive(writer: BackupDetails['writer']): boolean {
  if (writer?.machine !== WRITER.machine || !Number.isSafeInteger(writer.pid) || writer.pid <= 0) return true
  try {
    process.kill(writer.pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

const sealed = (id: string, error: SealError): BackupDetails => ({
  id,
  version: 1,
  state: 'sealed',
  kind: 'physical',
  started_at: startOf(id),
  finished_at: null,
  bytes: 0,
  from: null,
  to: null,
  error: error.message,
  major: 0,
  systemId: '',
  timeline: 0,
  segmentSize: 0,
  database: '',
  user: '',
  objects: [],
  files: { kind: 'none', count: 0, bytes: 0 },
  archive: null,
  consistent_at: null,
  touched_at: startOf(id),
  app: '',
})

const startOf = (id: string): string => id.replace(/^(\d{4})(\d\d)(\d\d)t(\d\d)(\d\d)(\d\d)z.*/, '$1-$2-$3T$4:$5:$6Z')

/** As the command line and the API show it. */
export function shownBackup(details: BackupDetails): BackupRecord {
  const { id, state, kind, started_at, finished_at, bytes, server, from, to, verified_at, verification, error } =
    details
  return {
    id,
    state,
    kind,
    started_at,
    finished_at,
    bytes,
    ...(server !== undefined && { server }),
    from,
    to,
    ...(verified_at !== undefined && { verified_at }),
    ...(verification !== undefined && { verification }),
    ...(error !== undefined && { error }),
  }
}
