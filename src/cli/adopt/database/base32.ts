const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const MIN_BYTES = 10

/** RFC 4648, with or without padding; undefined for anything else, such as an encrypted secret. */
export function fromBase32(text: string): Buffer | undefined {
  const plain = text.replace(/=+$/, '')
  if (!/^[A-Z2-7]+$/.test(plain)) return undefined
  const bytes: number[] = []
  let [bits, held] = [0, 0]
  for (const letter of plain) {
    held = ((held << 5) | ALPHABET.indexOf(letter)) & 0xfff
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes.push((held >> bits) & 0xff)
    }
  }
  return bytes.length >= MIN_BYTES ? Buffer.from(bytes) : undefined
}
