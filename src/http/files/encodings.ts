/** Precompressed variants of a file, best first. */
const ENCODINGS = [
  { name: 'br', suffix: '.br' },
  { name: 'gzip', suffix: '.gz' },
] as const

export type ContentEncoding = (typeof ENCODINGS)[number]

/** RFC 9110 §12.5.3, simplified: named or covered by `*`, and not refused with q=0. */
export function acceptedEncodings(header = ''): ContentEncoding[] {
  const weights = new Map(
    header.split(',').map((item) => {
      const [name = '', ...parameters] = item.split(';').map((text) => text.trim().toLowerCase())
      const q = parameters.find((parameter) => parameter.startsWith('q='))
      return [name, q === undefined ? 1 : Number(q.slice(2))] as const
    }),
  )
  return ENCODINGS.filter(({ name }) => (weights.get(name) ?? weights.get('*') ?? 0) > 0)
}
