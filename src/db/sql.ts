/** What PostgreSQL can bind, sent as text. The caller serialises objects with JSON.stringify. */
export type Value = string | number | bigint | boolean | null | Date | readonly (string | number | null)[]

type Arg = Sql | Ident | Slot | Value

/** A placeholder for a value in a statement that is built once and filled with other values each time. */
export class Slot {
  readonly index: number
  constructor(index: number) {
    this.index = index
  }
}

const slots: Slot[] = []

export function slotAt(index: number): Slot {
  for (let i = slots.length; i <= index; i++) slots.push(new Slot(i))
  return slots[index] as Slot
}

/** Collects the values of a request, so that requests which differ in values alone share a statement. */
export class Slots {
  readonly values: Value[] = []

  put(value: Value): Slot {
    return slotAt(this.values.push(value) - 1)
  }
}

/** A Sql can only be made by the `sql` tag, so a plain string can never become SQL text. */
export class Sql {
  readonly #parts: readonly string[]
  readonly #args: readonly Arg[]
  #composed: { text: string; values: readonly (Value | Slot)[] } | undefined
  #rendered: { text: string; values: readonly Value[] } | undefined

  private constructor(parts: readonly string[], args: readonly Arg[]) {
    this.#parts = parts
    this.#args = args
  }

  static tag(parts: TemplateStringsArray, ...args: Arg[]): Sql {
    return new Sql(parts, args)
  }

  /** Flat, because nested statements are written recursively and many would overflow the stack. */
  static join(items: readonly Sql[], glue: Sql = COMMA): Sql {
    const args = items.flatMap((item, i) => (i === 0 ? [item] : [glue, item]))
    return new Sql(Array<string>(args.length + 1).fill(''), args)
  }

  /** The text with $1… placeholders, and the values in their order. */
  render(): { text: string; values: readonly Value[] } {
    this.#rendered ??= this.#withValues([])
    return this.#rendered
  }

  /** This statement with values in its slots, sharing its text. The result cannot be part of another statement. */
  fill(values: readonly Value[]): Sql {
    const filled = new Sql([], [])
    filled.#rendered = this.#withValues(values)
    return filled
  }

  /** This statement without its parts, which take several times the memory of its text. It is no part of another one. */
  textAlone(): Sql {
    const alone = new Sql([], [])
    alone.#composed = this.#compose()
    return alone
  }

  /** The text; slots need not be filled. */
  get text(): string {
    return this.#compose().text
  }

  #compose(): { text: string; values: readonly (Value | Slot)[] } {
    if (this.#composed === undefined) {
      const values: (Value | Slot)[] = []
      this.#composed = { text: this.#write(values), values }
    }
    return this.#composed
  }

  #withValues(filling: readonly Value[]): { text: string; values: readonly Value[] } {
    const { text, values } = this.#compose()
    return { text, values: values.map((value) => (value instanceof Slot ? valueAt(filling, value) : value)) }
  }

  #write(values: (Value | Slot)[]): string {
    if (this.#parts.length === 0) throw new TypeError('a filled or kept statement is not a part of another')
    let text = this.#parts[0] ?? ''
    for (let i = 0; i < this.#args.length; i++) {
      const arg = this.#args[i]
      if (arg instanceof Sql) text += arg.#write(values)
      else if (arg instanceof Ident) text += arg.quoted
      else if (arg instanceof Slot) text += `$${1 + parameterIndex(arg, values)}`
      else if (arg === undefined) throw new TypeError(`undefined in SQL after: …${text.slice(-40)}`)
      else text += `$${values.push(arg)}`
      text += this.#parts[i + 1] ?? ''
    }
    return text
  }
}

/** A slot used twice is one parameter. */
function parameterIndex(slot: Slot, values: (Value | Slot)[]): number {
  const index = values.indexOf(slot)
  return index === -1 ? values.push(slot) - 1 : index
}

function valueAt(values: readonly Value[], { index }: Slot): Value {
  const value = values[index]
  if (value === undefined) throw new TypeError(`no value for slot ${index}`)
  return value
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

/** Separated by commas, unless another glue is given. */
export const join: (items: readonly Sql[], glue?: Sql) => Sql = Sql.join

export const COMMA: Sql = sql`, `
export const AND: Sql = sql` and `
export const OR: Sql = sql` or `

/** Alias of the row in statements over a user's table; svc.candidates() uses the same one. */
export const ROW: Ident = new Ident('svc_t')

/** A timestamptz as the API writes it: RFC 3339 in UTC, with milliseconds. */
export const rfc3339 = (column: Sql): Sql => sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const OPERATOR_SIGNS = new Map(
  [
    [sql`+`, sql`-`, sql`*`, sql`/`, sql`<`, sql`>`, sql`=`, sql`~`],
    [sql`!`, sql`@`, sql`#`, sql`%`, sql`^`, sql`&`, sql`|`, sql`\``, sql`?`],
  ].flatMap((signs) => signs.map((sign) => [sign.text, sign])),
)

/** An operator by its schema; its name, which cannot be quoted, is put together from the signs it may consist of. */
export const operatorIn = (schema: string, name: string): Sql =>
  sql`operator(${new Ident(schema)}.${join(
    [...name].map((sign) => OPERATOR_SIGNS.get(sign) ?? EMPTY),
    EMPTY,
  )})`

const DIGITS = [sql`0`, sql`1`, sql`2`, sql`3`, sql`4`, sql`5`, sql`6`, sql`7`, sql`8`, sql`9`]

/** An integer in the text, where PostgreSQL takes no parameter or plans better with the number. */
export const integerLiteral = (n: number): Sql =>
  join(
    [...String(n)].map((digit) => DIGITS[Number(digit)] ?? EMPTY),
    EMPTY,
  )

/**
 * An expression that PostgreSQL itself deparsed from its catalogue with pg_get_expr, such as a policy's USING clause.
 * It is the operator's own SQL, already accepted by PostgreSQL; never pass anything else.
 */
export const catalogueExpression = (text: string): Sql => sql(Object.assign([text], { raw: [text] }))

/** A name as text, for a cast to regclass or regconfig where it must be a constant of the statement. */
export const nameLiteral = ({ quoted }: Ident): Sql => catalogueExpression(`'${quoted.replaceAll("'", "''")}'`)

/** SQL that the operator wrote and sent with the admin token, such as the expression of a new policy. */
export const operatorSql = (text: string): Sql => sql(Object.assign([text], { raw: [text] }))
