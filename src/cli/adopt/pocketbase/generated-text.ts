import { literal } from './rule-sql.ts'
import { HELPERS } from './sql-functions.ts'

const PART = /\[([A-Za-z0-9_-]+)\](?:\{(\d{1,3})\})?|([A-Za-z0-9_-])(?:\{(\d{1,3})\})?/y

/** SQL that makes a text by a plain pattern such as `users[0-9]{6}`; undefined for another, and for none. */
export function generatorOf(pattern: string): string | undefined {
  if (pattern === '') return undefined
  const parts: string[] = []
  PART.lastIndex = 0
  while (PART.lastIndex < pattern.length) {
    const found = PART.exec(pattern)
    if (!found) return undefined
    const [, letters, count, one = '', times] = found
    if (letters === undefined) parts.push(literal(one.repeat(Number(times ?? 1))))
    else {
      const all = lettersOf(letters)
      if (all === undefined) return undefined
      parts.push(`${HELPERS}.random_of(${literal(all)}, ${Number(count ?? 1)})`)
    }
  }
  return `(${parts.join(' || ')})`
}

/** `a-z0-9` written out. */
function lettersOf(given: string): string | undefined {
  let all = ''
  for (let at = 0; at < given.length; at++) {
    const [from = '', dash, to] = [given[at], given[at + 1], given[at + 2]]
    if (dash !== '-' || to === undefined) all += from
    else {
      if (from > to) return undefined
      for (let code = from.charCodeAt(0); code <= to.charCodeAt(0); code++) all += String.fromCharCode(code)
      at += 2
    }
  }
  return all
}
