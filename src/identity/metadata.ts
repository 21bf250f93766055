import { badRequest } from '../core/errors.ts'

const MAX_BYTES = 16 * 1024

/** The JSON text of metadata that fits an account. */
export function metadataText(metadata: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(metadata)
  if (Buffer.byteLength(text) > MAX_BYTES) throw badRequest('metadata must have at most 16 KB')
  return text
}
