import type { Feature } from '../http/feature.ts'

type Stoppable = { stop?(): Promise<void> | void }

/** Stops opened parts in reverse order, at shutdown or after a failed start. */
export class Lifecycle {
  readonly #parts: Stoppable[] = []
  #draining: readonly Feature[] = []
  #isDraining = false

  /** True between the stop signal and the end of the process. */
  get isDraining(): boolean {
    return this.#isDraining
  }

  own<T extends Stoppable>(part: T): T {
    this.#parts.push(part)
    return part
  }

  async start(features: readonly Feature[]): Promise<void> {
    this.#draining = features
    for (const feature of features) {
      this.own(feature)
      await feature.start?.()
    }
  }

  /** Called by the HTTP server when its drain begins. */
  drain(): void {
    this.#isDraining = true
    for (const feature of this.#draining) feature.drain?.()
  }

  async stop(): Promise<void> {
    for (const part of this.#parts.splice(0).reverse()) await part.stop?.()
  }
}
