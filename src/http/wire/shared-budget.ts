export type Share = { readonly total: number; readonly perAddress: number }

/** What one request holds of a budget. */
export type Holding = { grow(bytes: number): void; release(): void }

type Held = { bytes: number; giveWay: () => void }
type Holder = { bytes: number; held: Set<Held> }

/**
 * Memory that callers share. Whoever comes last is never refused for what others hold: the oldest request of the
 * address that has too much gives way, and over all that of the address that has most. Honest requests are short, so
 * the oldest is the one that takes its time.
 */
export class SharedBudget {
  readonly #share: Share
  readonly #holders = new Map<string, Holder>()
  #total = 0

  constructor(share: Share) {
    this.#share = share
  }

  hold(address: string, giveWay: () => void): Holding {
    const held: Held = { bytes: 0, giveWay }
    return {
      grow: (bytes) => {
        const holder = this.#holders.get(address) ?? { bytes: 0, held: new Set() }
        this.#holders.set(address, holder)
        holder.held.add(held)
        held.bytes += bytes
        holder.bytes += bytes
        this.#total += bytes
        while (holder.bytes > this.#share.perAddress) this.#evict(address, holder)
        while (this.#total > this.#share.total) this.#evictFromHeaviest()
      },
      release: () => this.#drop(address, held),
    }
  }

  #evictFromHeaviest(): void {
    const [first] = [...this.#holders].sort(([, a], [, b]) => b.bytes - a.bytes)
    if (first) this.#evict(...first)
  }

  #evict(address: string, holder: Holder): void {
    for (const oldest of holder.held) {
      this.#drop(address, oldest)
      oldest.giveWay()
      return
    }
  }

  #drop(address: string, held: Held): void {
    const holder = this.#holders.get(address)
    if (!holder?.held.delete(held)) return
    holder.bytes -= held.bytes
    this.#total -= held.bytes
    if (holder.held.size === 0) this.#holders.delete(address)
  }
}
