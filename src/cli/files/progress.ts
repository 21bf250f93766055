const WIDTH = 30
const DRAW_EVERY_MS = 100

/** A progress bar on stderr; silent unless stderr is a terminal. `noun`: what is counted beside the bar. */
export class Progress {
  readonly #totalBytes: number
  readonly #totalFiles: number
  readonly #noun: string
  readonly #isShown = process.stderr.isTTY === true
  #bytes = 0
  #files = 0
  #drawnAt = 0

  constructor(totalBytes: number, totalFiles: number, noun = 'files') {
    this.#totalBytes = totalBytes
    this.#totalFiles = totalFiles
    this.#noun = noun
  }

  add(bytes: number): void {
    this.#bytes += bytes
    if (performance.now() - this.#drawnAt > DRAW_EVERY_MS) this.#draw()
  }

  fileDone(): void {
    this.#files++
  }

  end(): void {
    if (!this.#isShown || this.#totalFiles === 0) return
    this.#draw()
    process.stderr.write('\n')
  }

  #draw(): void {
    if (!this.#isShown) return
    this.#drawnAt = performance.now()
    const share = this.#totalBytes === 0 ? 1 : Math.min(1, this.#bytes / this.#totalBytes)
    const done = Math.round(share * WIDTH)
    const bar = '█'.repeat(done) + '░'.repeat(WIDTH - done)
    process.stderr.write(`\r${bar} ${Math.round(share * 100)} %  ${this.#files}/${this.#totalFiles} ${this.#noun}`)
  }
}
