import type { EmbeddingProvider } from './provider.ts'

const DIMENSIONS = 256
const GRAM = 3
const GRAM_WEIGHT = 0.5

/**
 * The built-in provider: words and their trigrams, each hashed to an index and a sign ("feature hashing"). It compares
 * spelling, not meaning. The same text must give the same vector on every machine and in every version, because vectors
 * are stored.
 */
export const hashProvider: EmbeddingProvider = {
  embed: async (texts, dimensions = DIMENSIONS) => texts.map((text) => hashed(text, dimensions)),
}

function hashed(text: string, dimensions: number): number[] {
  const vector = new Array<number>(dimensions).fill(0)
  const add = (feature: string, weight: number): void => {
    const hash = fnv1a(feature)
    const at = (hash >>> 1) % dimensions
    vector[at] = (vector[at] ?? 0) + (hash & 1 ? weight : -weight)
  }
  for (const [word] of text
    .normalize('NFKC')
    .toLowerCase()
    .matchAll(/[\p{L}\p{N}]+/gu)) {
    add(word, 1)
    const letters = ['<', ...word, '>']
    for (let i = 0; i + GRAM <= letters.length; i++) add(`#${letters.slice(i, i + GRAM).join('')}`, GRAM_WEIGHT)
  }
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map((n) => n / length)
}

/** FNV-1a, 32 bits, over UTF-8, with a final mix so that the low bits depend on all others. */
function fnv1a(text: string): number {
  let hash = 0x81_1c_9d_c5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01_00_01_93)
  hash = Math.imul(hash ^ (hash >>> 16), 0x45_d9_f3_b5)
  return (hash ^ (hash >>> 16)) >>> 0
}
