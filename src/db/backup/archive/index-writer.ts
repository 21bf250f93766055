import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { reasonOf } from '../../../core/errors.ts'
import { Loop } from '../../loop.ts'
import { openConnection } from '../../protocol/driver.ts'
import { archiveIndexName, type IndexEntry, listIndex } from '../stored/archive-index.ts'
import type { Seals } from '../stored/seal.ts'
import { formatLsn } from '../stored/wal.ts'
import type { BackupTarget } from '../target/target.ts'

const EVERY_MS = 2_000
const OVERLAP = '10 minutes'
const PAGE = 20_000

type IndexOptions = { target: BackupTarget; seals: Seals; archive: string; start: string; url: string }
type ChangeRow = { id: string; xid: string; request: string; at: string }
type Sample = { bound: bigint; lastId: string }

/** Beside the log: which request is which transaction, and what was revoked, so that both are known after the database is lost. */
export class ArchiveIndex {
  readonly #options: IndexOptions
  #client: pg.Client | undefined
  #loop: Loop | undefined
  #error: string | null = null
  /** Up to here all entries of the log have been seen; above it those of `#seen`. */
  #floor: string | undefined
  #seen = new Set<string>()
  #samples: Sample[] = []
  #lastRevocation: string | undefined
  #since = ''

  constructor(options: IndexOptions) {
    this.#options = options
  }

  get error(): string | null {
    return this.#error
  }

  start(): void {
    this.#loop = new Loop({
      step: () => this.#step(),
      everyMs: EVERY_MS,
      onFailure: (error) => {
        this.#error = reasonOf(error)
      },
    })
  }

  async stop(): Promise<void> {
    // The last entries of a server that stops.
    if (this.#client) await this.#step().catch(() => undefined)
    await this.#loop?.stop()
    await this.#client?.end().catch(() => {})
  }

  async #step(): Promise<undefined> {
    const { url, target, seals, archive } = this.#options
    this.#client ??= await openConnection({ url, applicationName: 'svc archive index' })
    try {
      const { entries, fresh, next, sample, revocation } = await this.#read(this.#client)
      if (entries.length > 0) {
        const name = archiveIndexName(archive, next, randomBytes(3).toString('hex'))
        const text = entries.map((entry) => `${JSON.stringify(entry)}\n`).join('')
        await target.put(name, seals.seal(name, [Buffer.from(text)]))
      }
      this.#since = next
      this.#lastRevocation = revocation
      this.#advance(sample, fresh)
      this.#error = null
    } catch (error) {
      await this.#client?.end().catch(() => {})
      this.#client = undefined
      throw error
    }
  }

  async #read(client: pg.Client) {
    const { rows } = await client.query<{
      lsn: string
      oldest: string
      bound: string
      last: string
      revocation: string
    }>(
      `select pg_current_wal_lsn()::text as lsn, pg_snapshot_xmin(pg_current_snapshot())::text as oldest,
         pg_snapshot_xmax(pg_current_snapshot())::text as bound,
         coalesce((select max(id) from svc.change_log), 0)::text as last,
         coalesce((select max(id) from svc.revocations), 0)::text as revocation`,
    )
    const [now] = rows
    if (!now) throw new Error('PostgreSQL does not say where its log ends')
    if (this.#floor === undefined) await this.#begin(client)
    const changes: ChangeRow[] = []
    for (let after = this.#floor; ; ) {
      const { rows: page } = await client.query<ChangeRow>(
        `select id::text as id, xid::text as xid, request_id as request, at::text as at from svc.change_log
         where id > $1 and id <= $2 order by id limit ${PAGE}`,
        [after, now.last],
      )
      changes.push(...page.filter(({ request }) => request !== null))
      after = page.at(-1)?.id ?? after
      if (page.length < PAGE) break
    }
    const { rows: ended } = await client.query<{ kind: string; subject: string; at: string }>(
      'select kind, subject, at::text as at from svc.revocations where id > $1 and id <= $2',
      [this.#lastRevocation, now.revocation],
    )
    const entries: IndexEntry[] = []
    const fresh = new Set<string>()
    for (const { xid, request, at } of changes) {
      const key = `${xid} ${request}`
      if (this.#seen.has(key) || fresh.has(key)) continue
      fresh.add(key)
      entries.push({ request, xid, at, from: this.#since, to: now.lsn })
    }
    for (const { kind, subject, at } of ended) entries.push({ ended: kind, subject, at, to: now.lsn })
    return { entries, fresh, next: now.lsn, sample: now, revocation: now.revocation }
  }

  /** An archive before this one may have been killed before its last look: the last minutes are looked at again. */
  async #begin(client: pg.Client): Promise<void> {
    const { target, archive, start } = this.#options
    const { rows } = await client.query<{ floor: string; revocation: string }>(
      `select coalesce((select max(id) from svc.change_log where at < now() - interval '${OVERLAP}'), 0)::text as floor,
         coalesce((select max(id) from svc.revocations where at < now() - interval '${OVERLAP}'), 0)::text as revocation`,
    )
    this.#floor = rows[0]?.floor ?? '0'
    this.#lastRevocation = rows[0]?.revocation ?? '0'
    const last = (await listIndex(target, archive)).at(-1)
    this.#since = last ? formatLsn(last.to) : start
  }

  /** A transaction that began after a look has ids above its last one (see changes/settled.ts). */
  #advance({ oldest, bound, last }: { oldest: string; bound: string; last: string }, fresh: Set<string>): void {
    this.#samples.push({ bound: BigInt(bound), lastId: last })
    const newest = this.#samples.findLastIndex((sample) => sample.bound <= BigInt(oldest))
    const settled = this.#samples[newest]
    // What has been seen is above the floor for as long as a look still finds it.
    this.#seen = settled && settled.lastId !== this.#floor ? fresh : new Set([...this.#seen, ...fresh])
    if (!settled) return
    this.#floor = settled.lastId
    this.#samples = this.#samples.slice(newest)
  }
}
