import { badRequest } from '../../../core/errors.ts'

export type Element = { readonly number: number; readonly text: string }

export class ElementTooLong extends Error {
  readonly number: number
  constructor(number: number) {
    super(`element ${number} is too long`)
    this.number = number
  }
}

/** Cuts the elements of a JSON array out of its text as it arrives. The caller parses each element. */
export class ElementReader {
  readonly #maxElement: number
  #text = ''
  #depth = 0
  #inString = false
  #isEscaped = false
  #state: 'before' | 'inside' | 'after' = 'before'
  #count = 0

  constructor(maxElement: number) {
    this.#maxElement = maxElement
  }

  read(piece: string): Element[] {
    const elements: Element[] = []
    let from = 0
    for (let i = 0; i < piece.length; i++) {
      const char = piece[i] ?? ''
      if (this.#state !== 'inside') {
        if (this.#state === 'before' && char === '[') this.#state = 'inside'
        else if (!/[\s\ufeff]/.test(char)) throw badRequest('invalid JSON body', 'invalid_body')
        from = i + 1
      } else if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (char === '\\') this.#isEscaped = true
        else if (char === '"') this.#inString = false
      } else if (char === '"') this.#inString = true
      else if (char === '{' || char === '[') this.#depth++
      else if (this.#depth > 0 && (char === '}' || char === ']')) this.#depth--
      else if (this.#depth === 0 && (char === ',' || char === ']')) {
        this.#grow(piece.slice(from, i))
        this.#end(elements, char === ']')
        from = i + 1
      }
    }
    if (this.#state === 'inside') this.#grow(piece.slice(from))
    return elements
  }

  end(): Element[] {
    if (this.#state !== 'after') throw badRequest('invalid JSON body', 'invalid_body')
    return []
  }

  #grow(text: string): void {
    this.#text += text
    if (this.#text.length > this.#maxElement) throw new ElementTooLong(this.#count + 1)
  }

  #end(elements: Element[], isLast: boolean): void {
    const text = this.#text.trim()
    this.#text = ''
    if (isLast) this.#state = 'after'
    if (text === '' && isLast && this.#count === 0) return
    if (text === '') throw badRequest('invalid JSON body', 'invalid_body')
    elements.push({ number: ++this.#count, text })
  }
}
