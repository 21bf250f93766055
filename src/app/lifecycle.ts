import type { Feature } from '../http/feature.ts'

type Stoppable = { stop?(): Promise<void> | void }

/** What has been opened, in order. It is closed in reverse, at the end of a life or of a start that failed. */
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

  /** For the HTTP server, when it begins to let its requests end. */
  drain(): void {
    this.#isDraining = true
    for (const feature of this.#draining) feature.drain?.()
  }

  async stop(): Promise<void> {
    for (const part of this.#parts.splice(0).reverse()) await part.stop?.()
  }
}
