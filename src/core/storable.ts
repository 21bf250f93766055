/** NUL and halves of surrogate pairs, as JSON.stringify writes them. */
const IN_JSON = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Whether jsonb takes this text of JSON.stringify. */
export const isStorableJson = (json: string): boolean => !IN_JSON.test(json)

/** PostgreSQL takes no NUL, and all halves of surrogate pairs would be stored as one character. */
export const isStorableText = (text: string): boolean => !/[\0\p{Surrogate}]/u.test(text)

/** PostgreSQL keeps neither U+0000 nor halves of surrogate pairs. */
export const storableText = (text: string): string => text.replaceAll('\0', '').replaceAll(LONE, '\ufffd')
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/**
 * JSON text as `jsonb` takes it, with all digits of its numbers but where they are beyond `numeric`; undefined for what is no
 * JSON.
 */
export function storableJson(text: string): string | undefined {
  const kept = storableText(text).replace(ESCAPES, (found, zero, pair) =>
    zero ? '' : pair || !/^\\ud[89a-f]/i.test(found) ? found : '\\ufffd',
  )
  try {
    const value: unknown = JSON.parse(kept)
    return BEYOND_NUMERIC.test(kept) ? JSON.stringify(value) : kept
  } catch {
    return undefined
  }
}
const ESCAPES = /\\(?:(u0000)|(ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|ud[89a-f][0-9a-f]{2}|.)/gis
const BEYOND_NUMERIC = /\d[eE][+-]?\d{5}|\d{16384}/
