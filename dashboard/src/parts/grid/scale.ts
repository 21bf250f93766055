/** Chromium ends an element at 33.5 million px, Firefox at 17.9. */
export const MOST_PX = 16_000_000

/**
 * Rows lie on a line of pixels that may be longer than an element can be. The element is then as long as it can be, and a
 * pixel of the scrollbar stands for several of the line.
 */
export class Scale {
  /** Of the element that holds the rows. */
  readonly height: number
  /** The farthest place that the line can be scrolled to. */
  readonly lineEnd: number
  readonly #factor: number

  /** `view`: what is seen of the line at a time. */
  constructor(length: number, view: number) {
    this.height = Math.min(length, MOST_PX)
    this.lineEnd = Math.max(0, length - view)
    const scrollEnd = Math.max(1, this.height - view)
    this.#factor = length > MOST_PX ? this.lineEnd / scrollEnd : 1
  }

  get isScaled(): boolean {
    return this.#factor > 1
  }

  /** Where the line is when the element is scrolled so far. */
  lineAt(scrollTop: number): number {
    return scrollTop * this.#factor
  }

  /** How far the element is scrolled to show this place of the line. */
  scrollFor(line: number): number {
    return line / this.#factor
  }
}
