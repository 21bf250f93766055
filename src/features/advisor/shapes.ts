import { SYSTEM } from '../../core/identity.ts'
import { sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import type { StatementShape } from '../../db/protocol/statements.ts'
import { forgetShapes, keepShapes, keptShapes } from './sql.ts'

export type SeenStatement = { readonly text: string; readonly role: string; readonly runs: number }

const MAX_TEXT = 20_000
const HOUR_MS = 3_600_000

/** Statements that requests caused, in memory and hourly in `svc.shapes`; never values. */
export class StatementShapes {
  readonly #db: Db
  readonly #read: () => readonly StatementShape[]
  /** By name: runs that are in the table. */
  #kept = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(db: Db, read: () => readonly StatementShape[]) {
    this.#db = db
    this.#read = read
  }

  start(): void {
    this.#timer = setInterval(() => void this.keep().catch(() => {}), HOUR_MS).unref()
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.keep().catch(() => {})
  }

  /** Those of callers that are not in the table yet, with their runs since. */
  unkept(): SeenStatement[] {
    return this.#ofCallers().flatMap(({ name, text, role, runs }) => {
      const since = runs - (this.#kept.get(name) ?? 0)
      return since > 0 ? { text, role, runs: since } : []
    })
  }

  async keep(): Promise<void> {
    const all = this.#ofCallers()
    const shapes = this.unkept().slice(0, 1_000)
    if (shapes.length === 0) return
    this.#kept = new Map(all.map(({ name, runs }) => [name, runs]))
    const ids = shapes.map(({ role, text }) => sha256(`${role} ${text}`))
    const rows = keepShapes(
      ids,
      shapes.map(({ role }) => role),
      shapes.map(({ text }) => text),
      shapes.map(({ runs }) => runs),
    )
    await this.#db.run(SYSTEM, [rows, forgetShapes])
  }

  /** With those of earlier hours and other processes. */
  async all(others: readonly (readonly SeenStatement[])[]): Promise<SeenStatement[]> {
    const sums = new Map<string, SeenStatement>()
    for (const { text, role, runs } of [
      ...(await this.#db.rows<SeenStatement>(SYSTEM, keptShapes)),
      ...others.flat(),
    ]) {
      const key = `${role} ${text}`
      sums.set(key, { text, role, runs: runs + (sums.get(key)?.runs ?? 0) })
    }
    return [...sums.values()].sort((a, b) => b.runs - a.runs)
  }

  #ofCallers(): StatementShape[] {
    return this.#read().filter(
      ({ role, text }) => role.startsWith('svc_') && text.length <= MAX_TEXT && text.includes('svc_t'),
    )
  }
}
