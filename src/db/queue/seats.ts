/** How many items are at work, and how many more may be. */
export class Seats {
  readonly #all: number
  readonly perGroup: number
  readonly #groups = new Map<string, number>()
  #taken = 0

  constructor(all: number, perGroup: number) {
    this.#all = all
    this.perGroup = perGroup
  }

  get taken(): number {
    return this.#taken
  }

  get free(): number {
    return this.#all - this.#taken
  }

  /** Those at work, by group. */
  get groups(): ReadonlyMap<string, number> {
    return this.#groups
  }

  get hasFullGroup(): boolean {
    return [...this.#groups.values()].some((count) => count >= this.perGroup)
  }

  /** False when there is none for this group. */
  take(group: string): boolean {
    const count = this.#groups.get(group) ?? 0
    if (this.free <= 0 || count >= this.perGroup) return false
    this.#groups.set(group, count + 1)
    this.#taken++
    return true
  }

  leave(group: string): void {
    const count = this.#groups.get(group) ?? 0
    if (count > 1) this.#groups.set(group, count - 1)
    else this.#groups.delete(group)
    this.#taken--
  }
}
