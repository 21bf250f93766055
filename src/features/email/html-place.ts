/** Elements whose content is no markup (WHATWG HTML, 13.2.5.2 and 13.2.5.3). */
const RAW = /^(?:style|script|textarea|title|xmp|iframe|noembed|noframes)$/

type State = 'text' | 'open' | 'tag' | 'name' | 'before value' | 'value' | 'declaration' | 'comment' | 'raw'

/** Where in an HTML document one is, as browsers read it (WHATWG HTML, 13.2.5), step by step. */
export class HtmlPlace {
  #state: State = 'text'
  /** Of the tag that is open, or of the element whose content is no markup. */
  #tag = ''
  #attribute = ''
  /** White space came behind a name: `=` still belongs to it, another character begins the next. */
  #isNameOver = false
  #value = ''
  #quote = ''
  /** The last characters of a comment, or of content that is no markup. */
  #tail = ''

  /** A value here would be part of a tag's or an attribute's name. */
  get isInMarkup(): boolean {
    return ['open', 'tag', 'name', 'declaration'].includes(this.#state)
  }

  get isUnquoted(): boolean {
    return this.#state === 'before value' || (this.#state === 'value' && this.#quote === '')
  }

  /** What the address that one is in begins with. */
  get address(): string | undefined {
    const isAddress = /^(?:href|src)$/i.test(this.#attribute)
    return isAddress && (this.#state === 'value' || this.#state === 'before value') ? this.#value : undefined
  }

  read(text: string): void {
    for (const char of text) this.#step(char)
  }

  #step(char: string): void {
    switch (this.#state) {
      case 'text':
        if (char === '<') this.#state = 'open'
        return
      case 'open':
        this.#tag = ''
        this.#tail = ''
        if (/[a-z/]/i.test(char)) this.#toTag(char)
        else if (char === '!' || char === '?') this.#state = 'declaration'
        else if (char !== '<') this.#state = 'text'
        return
      case 'declaration':
        this.#tail += char
        if (char === '>') this.#state = 'text'
        else if (this.#tail === '--') this.#state = 'comment'
        return
      case 'comment':
        this.#tail = (this.#tail + char).slice(-3)
        if (this.#tail === '-->') this.#state = 'text'
        return
      case 'raw':
        this.#tail = (this.#tail + char).slice(-this.#tag.length - 2)
        if (this.#tail.toLowerCase() === `</${this.#tag}`) this.#toTag('/')
        return
      case 'tag':
        if (/[\s/]/.test(char) && this.#tag !== '') this.#toName()
        else if (char === '>') this.#end()
        else this.#tag += char.toLowerCase()
        return
      case 'name':
        if (char === '>') this.#end()
        else if (char === '=' && this.#attribute !== '') this.#toValue()
        else if (/[\s/]/.test(char)) this.#isNameOver = true
        else this.#attribute = this.#isNameOver ? char : this.#attribute + char
        if (!/[\s/=>]/.test(char)) this.#isNameOver = false
        return
      case 'before value':
        if (char === '>') this.#end()
        else if (!/\s/.test(char)) this.#beginValue(char)
        return
      case 'value':
        if (this.#quote === '' ? /\s/.test(char) : char === this.#quote) this.#toName()
        else if (this.#quote === '' && char === '>') this.#end()
        else this.#value += char
    }
  }

  #toTag(char: string): void {
    this.#state = 'tag'
    this.#tag = char.toLowerCase()
  }

  #toName(): void {
    this.#state = 'name'
    this.#attribute = ''
    this.#isNameOver = true
  }

  #toValue(): void {
    this.#state = 'before value'
    this.#value = ''
    this.#quote = ''
  }

  #beginValue(char: string): void {
    this.#state = 'value'
    if (char === '"' || char === "'") this.#quote = char
    else this.#value = char
  }

  #end(): void {
    this.#state = RAW.test(this.#tag) ? 'raw' : 'text'
    this.#attribute = ''
    this.#tail = ''
  }
}
