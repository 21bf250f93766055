/** Far above any user; what is longer is no list of users. */
export const MAX_RECORD = 2 ** 20

/** A file that cannot be read on. */
export class UnreadableFile extends Error {}

/**
 * Cuts objects out of JSON as it arrives: the elements of a list, of the list `users` of an object (as Firebase writes it),
 * or one object after another. The caller parses each.
 */
export class JsonRecords {
  #text = ''
  #depth = 0
  /** How many brackets a record is inside of. */
  #outside: number | undefined
  #inString = false
  #isEscaped = false
  #isFirst = true
  /** Since the last record or comma: the last text, and whether a colon followed it. */
  #last = ''
  #string = ''
  #hasColon = false
  #isDone = false

  get isDone(): boolean {
    return this.#isDone && this.#outside === 2
  }

  *read(piece: string): Generator<string> {
    let from = 0
    for (let i = 0; i < piece.length; i++) {
      const char = piece[i] ?? ''
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (char === '\\') this.#isEscaped = true
        else if (char === '"') this.#endString()
        else if (this.#isFirst && this.#depth === 1 && this.#string.length < 8) this.#string += char
        continue
      }
      const isInside = this.#outside !== undefined && this.#depth > this.#outside
      if (char === '"') {
        if (!isInside) throw unexpected(char)
        this.#inString = true
      } else if (char === '{' || char === '[') {
        if (!isInside) {
          if (this.#isDone) throw unexpected(char)
          if (this.#outside === undefined && char === '[') {
            this.#outside = 1
            this.#isFirst = false
            this.#depth = 1
            from = i + 1
            continue
          }
          if (char === '[') throw unexpected(char)
          this.#outside ??= 0
          from = i
        } else if (char === '[' && this.#isUsers()) {
          this.#outside = 2
          this.#isFirst = false
          this.#depth = 2
          this.#text = ''
          from = i + 1
          continue
        }
        this.#depth++
      } else if (char === '}' || char === ']') {
        this.#depth--
        if (this.#depth < 0) throw unexpected(char)
        if (isInside && this.#depth === this.#outside) {
          this.#grow(piece.slice(from, i + 1))
          const record = this.#text
          this.#text = ''
          this.#isFirst = false
          yield record
        } else if (!isInside && this.#depth === (this.#outside ?? 0) - 1) {
          this.#isDone = true
          // What follows the list `users` in its object is not read.
          if (this.#depth > 0) return
        }
        from = isInside && this.#depth !== this.#outside ? from : i + 1
      } else if (char === ':') this.#hasColon = true
      else if (char === ',') {
        this.#hasColon = false
        this.#last = ''
      } else if (!isInside && !/[\s\ufeff]/.test(char)) throw unexpected(char)
      if (this.isDone) return
    }
    if (this.#outside !== undefined && this.#depth > this.#outside) this.#grow(piece.slice(from))
  }

  /** Whether everything that was begun is complete. */
  end(): void {
    if (!this.#isDone && (this.#depth > 0 || this.#inString))
      throw new UnreadableFile('it ends in the middle of the list')
  }

  #isUsers(): boolean {
    return this.#isFirst && this.#depth === 1 && this.#hasColon && this.#last === 'users'
  }

  #endString(): void {
    this.#inString = false
    if (!this.#hasColon) this.#last = this.#string
    this.#string = ''
  }

  #grow(text: string): void {
    this.#text += text
    if (this.#text.length > MAX_RECORD) throw new UnreadableFile(`a user has more than ${MAX_RECORD} characters`)
  }
}

const unexpected = (char: string): UnreadableFile =>
  new UnreadableFile(`it is no list of users: ${JSON.stringify(char)} is not expected`)
