const FIRST_SIZE = 16 * 1024
/** What a large statement made it grow to is given back. */
const LARGEST_KEPT = 256 * 1024
/** Longer texts are measured before they are written; for shorter ones it is quicker to reserve the maximum. */
const LONG_TEXT = 256

/**
 * Messages to PostgreSQL (protocol 3.0, "Message Formats"), put together in one piece of memory, so that all flights of a
 * turn of the event loop leave with one write. The driver's own writer makes a buffer and a write of each message.
 */
export class Outbox {
  #bytes = Buffer.allocUnsafeSlow(FIRST_SIZE)
  #end = 0

  parse(name: string, text: string): void {
    const start = this.#begin(0x50)
    this.#text(name)
    this.#text(text)
    this.#int16(0)
    this.#finish(start)
  }

  /** To the unnamed portal; all values, and what comes back, as text. */
  bind(statement: string, values: readonly (string | null)[]): void {
    const start = this.#begin(0x42)
    this.#text('')
    this.#text(statement)
    this.#int16(0)
    this.#int16(values.length)
    for (const value of values) this.#value(value)
    this.#int16(0)
    this.#finish(start)
  }

  describe(): void {
    const start = this.#begin(0x44)
    this.#text('P')
    this.#finish(start)
  }

  execute(): void {
    const start = this.#begin(0x45)
    this.#text('')
    this.#int32(0)
    this.#finish(start)
  }

  close(statement: string): void {
    const start = this.#begin(0x43)
    this.#text(`S${statement}`)
    this.#finish(start)
  }

  sync(): void {
    this.#finish(this.#begin(0x53))
  }

  /** Everything since the last time, to be written at once. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#end))
    this.#end = 0
    if (this.#bytes.length > LARGEST_KEPT) this.#bytes = Buffer.allocUnsafeSlow(FIRST_SIZE)
    return taken
  }

  #begin(type: number): number {
    this.#reserve(1 + 4)
    this.#bytes[this.#end] = type
    const start = this.#end + 1
    this.#end += 5
    return start
  }

  /** The length counts itself, not the type. */
  #finish(start: number): void {
    this.#bytes.writeInt32BE(this.#end - start, start)
  }

  #int16(value: number): void {
    this.#reserve(2)
    this.#end = this.#bytes.writeUInt16BE(value, this.#end)
  }

  #int32(value: number): void {
    this.#reserve(4)
    this.#end = this.#bytes.writeInt32BE(value, this.#end)
  }

  #text(text: string): void {
    this.#write(text)
    this.#reserve(1)
    this.#bytes[this.#end++] = 0
  }

  #value(value: string | null): void {
    const start = this.#end
    this.#int32(-1) // null, unless overwritten by a length
    if (value === null) return
    this.#write(value)
    this.#bytes.writeInt32BE(this.#end - start - 4, start)
  }

  #write(text: string): void {
    if (text === '') return
    this.#reserve(text.length > LONG_TEXT ? Buffer.byteLength(text) : text.length * 3)
    this.#end += this.#bytes.write(text, this.#end)
  }

  #reserve(size: number): void {
    const needed = this.#end + size
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2))
    this.#bytes.copy(larger, 0, 0, this.#end)
    this.#bytes = larger
  }
}
