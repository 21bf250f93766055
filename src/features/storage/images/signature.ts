/** What the bytes of a file say it is, whatever its name: the five kinds that are taken. */
export type ImageKind = 'jpeg' | 'png' | 'webp' | 'avif' | 'gif'

/** As many bytes as decide. */
export const SIGNATURE_BYTES = 64

export function imageKind(head: Buffer): ImageKind | undefined {
  const text = head.toString('latin1')
  if (text.startsWith('\xff\xd8\xff')) return 'jpeg'
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'png'
  if (text.startsWith('GIF87a') || text.startsWith('GIF89a')) return 'gif'
  if (text.startsWith('RIFF') && text.slice(8, 12) === 'WEBP') return 'webp'
  // ISO base media (ISO/IEC 14496-12): the major brand, or one of the compatible ones behind it.
  if (text.slice(4, 8) === 'ftyp' && /avi[fs]/.test(text.slice(8, Math.min(head.readUInt32BE(0), SIGNATURE_BYTES))))
    return 'avif'
  return undefined
}
