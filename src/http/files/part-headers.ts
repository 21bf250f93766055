const HEADERS_END = '\r\n\r\n'

type Limits = { readonly headerPairs: number; readonly headerSize: number }

/**
 * Counts the headers of each part of a multipart body as it passes. The parser drops what is beyond its limits and takes the
 * part nevertheless.
 */
export class PartHeaders {
  readonly #delimiter: string
  readonly #limits: Limits
  /** The end of the last chunk, which may be the beginning of what is looked for. */
  #tail = '\r\n'
  /** Undefined in the content of a part. */
  #headers: { bytes: number; lines: number } | undefined

  constructor(boundary: string, limits: Limits) {
    this.#delimiter = `\r\n--${boundary}`
    this.#limits = limits
  }

  /** False when a part has too many headers, or too long ones. */
  accepts(chunk: Buffer): boolean {
    const bytes = Buffer.concat([Buffer.from(this.#tail, 'latin1'), chunk])
    // Bytes of the tail were counted before.
    let counted = this.#tail.length
    let at = 0
    for (;;) {
      const sought = this.#headers ? HEADERS_END : this.#delimiter
      const found = bytes.indexOf(sought, at, 'latin1')
      const end = found === -1 ? bytes.length : found + sought.length
      if (this.#headers && !this.#count(bytes.subarray(Math.max(at, counted), end))) return false
      if (found === -1) {
        this.#tail = bytes.toString('latin1', Math.max(at, bytes.length - sought.length + 1))
        return true
      }
      this.#headers = this.#headers ? undefined : { bytes: 0, lines: 0 }
      // A part without headers has the line end of its delimiter alone before the empty line.
      at = this.#headers ? end : end - 2
      counted = Math.max(counted, end)
    }
  }

  #count(bytes: Buffer): boolean {
    const headers = this.#headers
    if (!headers) return true
    headers.bytes += bytes.length
    for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) headers.lines++
    // The ends of the delimiter's line and of the empty line are no headers.
    return headers.bytes <= this.#limits.headerSize && headers.lines <= this.#limits.headerPairs + 2
  }
}
