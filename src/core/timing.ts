import { AsyncLocalStorage } from 'node:async_hooks'

/** Measures the stages of one request, for the Server-Timing header. */
export class Timing {
  readonly #now: () => number
  readonly #startedAt: number
  readonly #stages: [name: string, ms: number][] = []
  #markedAt: number
  #waiting = 0
  #waitingSince = 0
  #waitedMs = 0

  constructor(startedAt: number, now: () => number = () => performance.now()) {
    this.#now = now
    this.#startedAt = startedAt
    this.#markedAt = startedAt
  }

  /** Ends a stage; the next one starts now. */
  mark(stage: string): void {
    const now = this.#now()
    this.#stages.push([stage, now - this.#markedAt])
    this.#markedAt = now
  }

  /** Starts a wait for PostgreSQL and returns the function that ends it. Concurrent statements count once. */
  startDbWait(_name?: () => string): () => void {
    if (this.#waiting++ === 0) this.#waitingSince = this.#now()
    return () => {
      if (--this.#waiting === 0) this.#waitedMs += this.#now() - this.#waitingSince
    }
  }

  /** The value of Server-Timing (W3C); `db` is part of the other stages. */
  toString(): string {
    const total = this.#now() - this.#startedAt
    return [...this.#stages, ['db', this.#waitedMs] as const, ['total', total] as const]
      .map(([name, ms]) => `${name};dur=${ms.toFixed(3)}`)
      .join(', ')
  }
}

const current = new AsyncLocalStorage<Timing>()
let measured = 0

/** Counts the statements of `work`. AsyncLocalStorage slows every request, so it is disabled after the last measurement. */
export async function measure<T>(timing: Timing, work: () => T | Promise<T>): Promise<T> {
  measured++
  try {
    return await current.run(timing, work)
  } finally {
    if (--measured === 0) current.disable()
  }
}

/** Of the request that is measured, if this is done for one. */
export const currentTiming = (): Timing | undefined => (measured === 0 ? undefined : current.getStore())

/** Counts the time until `answer` settles as database time, if the current request is measured. */
export function countDbWait<T>(answer: Promise<T>, statements?: Named): Promise<T> {
  const timing = measured === 0 ? undefined : current.getStore()
  return timing ? answer.finally(timing.startDbWait(() => nameOf(statements))) : answer
}

/** What has the text of a statement, or several of them. */
type Named = { render(): { text: string } } | readonly { render(): { text: string } }[]

/** The verb of each statement and the first relation it names, such as `select public.notes`. Never a value. */
function nameOf(statements: Named | undefined): string {
  if (statements === undefined) return 'transaction'
  const all = 'render' in statements ? [statements] : statements
  const names = all.map((statement) => {
    const { text } = statement.render()
    const verb = /\b(insert|update|delete|merge|select|call)\b/i.exec(text)?.[1] ?? 'statement'
    const relation = /\b(?:from|into|update)\s+(?:only\s+)?((?:"[^"]+"|[\w$]+)(?:\.(?:"[^"]+"|[\w$]+))?)/i.exec(
      text,
    )?.[1]
    return relation === undefined ? verb.toLowerCase() : `${verb.toLowerCase()} ${relation.replaceAll('"', '')}`
  })
  return [...new Set(names)].slice(0, 5).join(', ')
}
