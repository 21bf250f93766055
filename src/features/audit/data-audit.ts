import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { auditStatement } from '../../db/audit.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import { watchTable } from '../../db/changes/watch.ts'
import type { Db } from '../../db/db.ts'
import type { Schema, SchemaCache, Table } from '../../db/schema/snapshot.ts'
import {
  type AuditSettings,
  adoptSettings,
  anyAudited,
  auditedChanges,
  currentSettings,
  lockSettings,
  switchSettings,
} from './sql.ts'

export type DataAuditDeps = {
  db: Db
  schema: SchemaCache
  log: ChangeLog
  settings: AuditSettings
  observe: Observe
}

const FIRST_RETRY_MS = 1_000
const LAST_RETRY_MS = 3_600_000

const OFF: AuditSettings = { all_tables: false, tables: [] }

/**
 * Writes one audit entry for each change of data, from the change log, in one process at a time. The settings of the
 * process that started last are kept in the database, so all processes agree on what is audited.
 */
export class DataAudit {
  readonly #deps: DataAuditDeps
  /** Tables whose trigger could not be created; retried with a doubling delay. */
  readonly #refused = new Set<number>()
  #retryMs = FIRST_RETRY_MS
  #retry: NodeJS.Timeout | undefined

  #isWatching = false
  #isWatchPending = false

  constructor(deps: DataAuditDeps) {
    this.#deps = deps
  }

  async start(): Promise<void> {
    const { schema, log } = this.#deps
    await this.#storeSettings()
    // Before the server listens, so that no change by its clients precedes a trigger.
    await this.#watch()
    schema.onChange(() => void this.#watch())
    log.followDurably('audit', { wanted: anyAudited, effect: auditedChanges, onBatch: () => undefined })
  }

  stop(): void {
    clearTimeout(this.#retry)
  }

  /** Stores the settings; a change of what is audited is itself audited. */
  async #storeSettings(): Promise<void> {
    const { all_tables, tables } = this.#deps.settings
    const next = { all_tables, tables: [...new Set(tables)].sort() }
    await this.#deps.db.tx(SYSTEM, async (tx) => {
      await tx.run(lockSettings)
      await tx.run(adoptSettings)
      const [before = OFF] = await tx.rows<AuditSettings>(currentSettings)
      if (JSON.stringify(before) === JSON.stringify(next)) return
      await tx.run(switchSettings(next))
      const entry = { who: SYSTEM, action: 'audit.settings', target: 'audit', ip: '' }
      await tx.run(auditStatement({ ...entry, oldValues: before, newValues: next }))
    })
  }

  /** Creates triggers on audited tables, so that changes that bypass the API are logged too. Each trigger changes the schema. */
  async #watch(): Promise<void> {
    this.#isWatchPending = true
    if (this.#isWatching) return
    this.#isWatching = true
    try {
      while (this.#isWatchPending) {
        this.#isWatchPending = false
        for (const table of this.#deps.schema.read().tables.values()) {
          if (table.watched || this.#refused.has(table.oid) || !this.#isAudited(table)) continue
          if (!(await watchTable(this.#deps, table))) this.#refused.add(table.oid)
        }
      }
    } finally {
      this.#isWatching = false
    }
    if (this.#refused.size === 0) this.#retryMs = FIRST_RETRY_MS
    else this.#tryAgainLater()
  }

  #tryAgainLater(): void {
    if (this.#retry) return
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#refused.clear()
      void this.#watch()
    }, this.#retryMs).unref()
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS)
  }

  #isAudited({ schema, name, kind }: Table): boolean {
    if (kind !== 'table' && kind !== 'partitioned_table') return false
    const { all_tables: all, tables } = this.#deps.settings
    return all || tables.includes(name) || tables.includes(`${schema}.${name}`)
  }
}

/** A warning for the operator if `audit.tables` names unknown tables. */
export function unknownTables(snapshot: Schema, names: readonly string[]): string[] {
  const known = new Set([...snapshot.tables.values()].flatMap(({ schema, name }) => [name, `${schema}.${name}`]))
  const unknown = names.filter((name) => !known.has(name))
  return unknown.length === 0 ? [] : [`audit.tables names tables that are not there: ${unknown.join(', ')}`]
}
