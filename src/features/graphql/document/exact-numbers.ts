import { randomBytes } from 'node:crypto'

/** Begins a text that stands for a number; no client knows it. */
const WORD = randomBytes(16).toString('hex')

/** The texts and numbers of valid JSON. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
const MARKED = new RegExp(`"${WORD}([^"]*)"`, 'g')

/** Whether JSON.parse may lose digits of it, those after a decimal point that are zero included. */
const mayLoseDigits = (json: string): boolean => /\d[.eE]|\d{16}/.test(json)

/** JSON.parse, but numbers that a double does not write in the same way are texts behind WORD. */
export const parseExactly = (json: string): unknown =>
  JSON.parse(
    mayLoseDigits(json)
      ? json.replace(TOKEN, (token) =>
          token.startsWith('"') || String(Number(token)) === token ? token : `"${WORD}${token}"`,
        )
      : json,
  )

/** The JSON text of what parseExactly() read, with its numbers as written. */
export function exactText(value: unknown): string {
  const text = JSON.stringify(value)
  return text.includes(WORD) ? text.replace(MARKED, '$1') : text
}

/** Extensions of scalars that read values with exactText(). */
export const TAKES_EXACT_NUMBERS: Readonly<Record<string, unknown>> = { takesExactNumbers: true }

export const isMarked = (value: unknown): value is string => typeof value === 'string' && value.startsWith(WORD)

/** A value as JSON.parse reads it. */
export const unmarked = (value: unknown): unknown => (isMarked(value) ? Number(value.slice(WORD.length)) : value)
