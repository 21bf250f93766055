import type { LiveGroup } from './group.ts'

const KEPT_MS = 30_000
const MAX_BYTES = 32 * 2 ** 20

/** Lists that had members a moment ago: a client that reconnects is sent what has changed, and not everything again. */
export class Resting {
  readonly #groups = new Map<string, { group: LiveGroup; timer: NodeJS.Timeout }>()
  readonly #onGone: (group: LiveGroup) => void
  #bytes = 0

  constructor(onGone: (group: LiveGroup) => void) {
    this.#onGone = onGone
  }

  keep(group: LiveGroup): void {
    const timer = setTimeout(() => this.#drop(group.key), KEPT_MS).unref()
    this.#groups.set(group.key, { group, timer })
    this.#bytes += group.bytes
    for (const key of this.#groups.keys()) {
      if (this.#bytes <= MAX_BYTES) break
      this.#drop(key)
    }
  }

  /** Of what it reads nothing was heard meanwhile. */
  take(key: string): LiveGroup | undefined {
    const found = this.#groups.get(key)
    if (!found) return undefined
    this.#remove(key)
    const { group } = found
    group.plan = undefined
    group.dependencies = undefined
    group.values = undefined
    group.hasOldValues = true
    return group
  }

  /** All, or those of one payer. */
  clear(payer?: string): void {
    for (const [key, { group }] of this.#groups) if (payer === undefined || group.payer === payer) this.#drop(key)
  }

  stop(): void {
    for (const { timer } of this.#groups.values()) clearTimeout(timer)
    this.#groups.clear()
  }

  #drop(key: string): void {
    const found = this.#groups.get(key)
    this.#remove(key)
    if (found) this.#onGone(found.group)
  }

  #remove(key: string): void {
    const found = this.#groups.get(key)
    if (!found) return
    clearTimeout(found.timer)
    this.#bytes -= found.group.bytes
    this.#groups.delete(key)
  }
}
