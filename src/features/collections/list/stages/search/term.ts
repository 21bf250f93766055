/** Minus signs, then a phrase or a word, as websearch_to_tsquery reads them. */
const PART = /((?:-\s*)*)(?:"([^"]*)"?|([^\s"]+))/g

/**
 * Splits a search term into the words that rows should be similar to and those that they must not contain, joined by
 * `or`. Two minus signs cancel each other.
 */
export function splitTerm(term: string): { words: string; excluded: string } {
  const words: string[] = []
  const excluded: string[] = []
  for (const [, signs = '', phrase, word = ''] of term.matchAll(PART)) {
    const isExcluded = signs.split('-').length % 2 === 0
    const text = phrase ?? word
    if (text.trim() === '' || (phrase === undefined && /^or$/i.test(word))) continue
    if (isExcluded) excluded.push(phrase === undefined ? word : `"${phrase}"`)
    else words.push(text)
  }
  return { words: words.join(' '), excluded: excluded.join(' or ') }
}
