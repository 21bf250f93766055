/** What PostgreSQL can bind. Everything travels as text; objects must be serialised by the caller with JSON.stringify. */
export type Value = string | number | bigint | boolean | null | Date | readonly (string | number | null)[]

type Arg = Sql | Ident | Value

/** A Sql can only be made by the `sql` tag, so a plain string can never become SQL text. */
export class Sql {
  readonly #parts: readonly string[]
  readonly #args: readonly Arg[]
  #rendered: { text: string; values: readonly Value[] } | undefined

  private constructor(parts: readonly string[], args: readonly Arg[]) {
    this.#parts = parts
    this.#args = args
  }

  static tag(parts: TemplateStringsArray, ...args: Arg[]): Sql {
    return new Sql(parts, args)
  }

  /** The same fragment as one piece of text, for parts that are made once and used by many statements. */
  constant(): Sql {
    const { text, values } = this.render()
    if (values.length > 0) throw new TypeError(`values in a constant fragment: ${text.slice(0, 40)}`)
    return new Sql([text], [])
  }

  /** The statement's text with $1… placeholders, and the values in their order. */
  render(): { text: string; values: readonly Value[] } {
    if (this.#rendered === undefined) {
      const values: Value[] = []
      this.#rendered = { text: this.#write(values), values }
    }
    return this.#rendered
  }

  #write(values: Value[]): string {
    let text = this.#parts[0] ?? ''
    for (let i = 0; i < this.#args.length; i++) {
      const arg = this.#args[i]
      if (arg instanceof Sql) text += arg.#write(values)
      else if (arg instanceof Ident) text += arg.quoted
      else if (arg === undefined) throw new TypeError(`undefined in SQL after: …${text.slice(-40)}`)
      else text += `$${values.push(arg)}`
      text += this.#parts[i + 1] ?? ''
    }
    return text
  }
}

/** A name PostgreSQL itself reported (or a constant of ours), quoted once. Never made from request text. */
export class Ident {
  readonly quoted: string
  constructor(...path: [string, ...string[]]) {
    this.quoted = path.map((name) => `"${name.replaceAll('"', '""')}"`).join('.')
  }
}

export const sql = Sql.tag
export const EMPTY: Sql = sql``

export function join(items: readonly Sql[], glue: Sql): Sql {
  const [first, ...rest] = items
  if (first === undefined) return EMPTY
  return rest.reduce((all, item) => sql`${all}${glue}${item}`, first)
}

export const COMMA: Sql = sql`, `

/**
 * An expression that PostgreSQL itself deparsed from its catalogue with pg_get_expr, such as a policy's USING clause.
 * It is the operator's own SQL, already accepted by PostgreSQL; nothing else may come through here.
 */
export const catalogueExpression = (text: string): Sql => sql(Object.assign([text], { raw: [text] }))
