import { PER_PAGE } from '../../../api/first-rows.ts'

export type RowData = Record<string, unknown>
export type Loaded = {
  items: RowData[]
  next: string | null
  total?: number | undefined
  isEstimate?: boolean | undefined
}
type Slot = { token: string; items: readonly RowData[] | null; loading: boolean; size: number }

type Load = (token: string, isFirst: boolean, signal: AbortSignal) => Promise<Loaded>

/** What is kept of a long scroll; the rest is read again when it comes back into view. */
const KEPT = 24

/**
 * Rows by cursor: a page is known by the cursor in front of it, so the millionth row costs what the first does.
 * What follows the last page that was read is not known yet.
 */
export class RowPages {
  readonly #load: Load
  readonly #changed: () => void
  readonly #stop = new AbortController()
  #slots: Slot[] = []
  #isWhole = false
  #seen: [number, number] = [0, 0]
  total: number | undefined
  isEstimate = false
  error: unknown = null

  /** `loaded`: the first page, where it was read already. */
  constructor(first: string, load: Load, changed: () => void, loaded?: Loaded) {
    this.#load = load
    this.#changed = changed
    this.#slots = [{ token: first, items: null, loading: false, size: 0 }]
    if (loaded) this.#take(0, loaded)
  }

  /** Rows that can be scrolled to, with some that are still to come. */
  get count(): number {
    const { read } = this
    const isRefused = read === 0 && this.error !== null
    return read + (this.#isWhole || isRefused ? 0 : 30)
  }

  get read(): number {
    return this.#slots.reduce((sum, { size }) => sum + size, 0)
  }

  get isWhole(): boolean {
    return this.#isWhole
  }

  at(index: number): RowData | undefined {
    return this.#slots[Math.floor(index / PER_PAGE)]?.items?.[index % PER_PAGE]
  }

  /** Where a row is now, among those that are here. */
  indexOf(isIt: (row: RowData) => boolean): number {
    for (const [page, { items }] of this.#slots.entries()) {
      const at = items?.findIndex(isIt) ?? -1
      if (at >= 0) return page * PER_PAGE + at
    }
    return -1
  }

  find(isIt: (row: RowData) => boolean): RowData | undefined {
    const at = this.indexOf(isIt)
    return at < 0 ? undefined : this.at(at)
  }

  /** Reads what is in view. */
  need(first: number, last: number): void {
    const from = Math.max(0, Math.floor(first / PER_PAGE))
    const to = Math.floor((last + 40) / PER_PAGE)
    this.#seen = [from, to]
    for (let page = from; page <= to; page++) {
      const slot = this.#slots[page]
      if (slot && slot.items === null && !slot.loading) void this.#fetch(page)
    }
    this.#forget()
  }

  /** Reads what is in view again; rows stay until the new ones are there. */
  async refresh(): Promise<void> {
    const [from, to] = this.#seen
    this.#slots.forEach((slot, page) => {
      if (page < from || page > to) slot.items = null
    })
    for (let page = from; page <= Math.min(to, this.#slots.length - 1); page++) await this.#fetch(page)
  }

  /** Replaces a row that is shown. Returns whether it is. */
  patch(isIt: (row: RowData) => boolean, change: (row: RowData) => RowData): boolean {
    for (const slot of this.#slots) {
      const at = slot.items?.findIndex(isIt) ?? -1
      if (at < 0 || !slot.items) continue
      slot.items = slot.items.map((row, index) => (index === at ? change(row) : row))
      return true
    }
    return false
  }

  stop(): void {
    this.#stop.abort(new Error('stopped'))
  }

  async #fetch(page: number): Promise<void> {
    const slot = this.#slots[page]
    if (!slot || slot.loading) return
    slot.loading = true
    try {
      this.#take(page, await this.#load(slot.token, page === 0, this.#stop.signal))
    } catch (error) {
      if (this.#stop.signal.aborted) return
      this.error = error
    } finally {
      slot.loading = false
    }
    this.#changed()
  }

  #take(page: number, { items, next, total, isEstimate }: Loaded): void {
    if (total !== undefined) {
      this.total = total
      this.isEstimate = isEstimate ?? false
    }
    Object.assign(this.#slots[page] as Slot, { items, size: items.length })
    this.error = null
    this.#follow(page, next)
  }

  #follow(page: number, next: string | null): void {
    const after = this.#slots[page + 1]
    if (next === null) {
      this.#slots.length = page + 1
      this.#isWhole = true
    } else if (!after) {
      this.#slots.push({ token: next, items: null, loading: false, size: 0 })
      this.#isWhole = false
    } else if (after.token !== next) {
      // Rows came or went: what follows begins elsewhere.
      after.token = next
      if (after.items) after.items = null
    }
  }

  #forget(): void {
    const held = this.#slots.filter(({ items }) => items !== null)
    if (held.length <= KEPT) return
    const middle = (this.#seen[0] + this.#seen[1]) / 2
    this.#slots
      .map((slot, page) => ({ slot, away: Math.abs(page - middle) }))
      .filter(({ slot }) => slot.items !== null)
      .sort((a, b) => b.away - a.away)
      .slice(0, held.length - KEPT)
      .forEach(({ slot }) => {
        slot.items = null
      })
  }
}
