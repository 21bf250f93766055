/** What happens to integers that a double does not hold: a `bigint`, or the text of their digits. */
export type Numbers = 'exact' | 'text'

const INEXACT = /[\d.]{16}|\de[+-]?\d{3}/i
// A text as a whole would be one match, for which an engine may have no room.
const TOKENS = /"|\\.|-?\d[\d.eE+-]*/g

/** A text that no one else writes, before the digits that JSON has no type for. */
const mark = (): string => `~${Math.random()}~`

/** Significant digits and exponent, so that 1.50, 15e-1 and 1.5 are the same. */
function digitsOf(number: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)\.?(\d*)(?:e(.+))?$/i.exec(number) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  return (
    significant && `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
  )
}

const isKept = (token: string): boolean =>
  /^-?\d+$/.test(token) ? Number.isSafeInteger(Number(token)) : digitsOf(token) === digitsOf(String(Number(token)))

/**
 * As JSON.parse, but no digit is lost: integers beyond 2^53 become bigints, other numbers that a double does not give back
 * stay text. `JSON.parse` with the source text of numbers would do, but Node 20 has none.
 */
export function parseJson(text: string, numbers: Numbers = 'exact'): unknown {
  if (!INEXACT.test(text)) return JSON.parse(text)
  const tag = mark()
  let isText = false
  const marked = text.replace(TOKENS, (token) => {
    if (token === '"') isText = !isText
    return isText || token === '"' || isKept(token) ? token : `"${tag}${token}"`
  })
  return JSON.parse(marked, (_, value) => {
    if (typeof value !== 'string' || !value.startsWith(tag)) return value
    const digits = value.slice(tag.length)
    return numbers === 'exact' && /^-?\d+$/.test(digits) ? BigInt(digits) : digits
  })
}

/** As JSON.stringify; bigints are numbers with all their digits, NaN and infinities the texts that PostgreSQL reads. */
export function toJson(value: unknown): string {
  const tag = mark()
  const text = JSON.stringify(value, (_, part) => {
    if (typeof part === 'bigint') return tag + part
    return typeof part === 'number' && !Number.isFinite(part) ? String(part) : part
  })
  return text?.includes(tag) ? text.replaceAll(new RegExp(`"${tag}(-?\\d+)"`, 'g'), '$1') : text
}
