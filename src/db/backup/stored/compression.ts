import * as zlib from 'node:zlib'

/** Nothing is made with gzip any more; older backups are. */
export type CompressionMethod = 'gzip' | 'brotli' | 'zstd' | 'none'

type Options = { params?: Record<number, number>; maxOutputLength?: number; chunkSize?: number }
type Codec = (bytes: Buffer, options: Options, done: (error: Error | null, result: Buffer) => void) => void

/** Node has zstd from 22.15 on. */
const { zstdCompress, zstdDecompress } = zlib as unknown as { zstdCompress?: Codec; zstdDecompress?: Codec }

const run = (codec: Codec, bytes: Buffer, options: Options): Promise<Buffer> =>
  new Promise((resolve, reject) => codec(bytes, options, (error, result) => (error ? reject(error) : resolve(result))))

/** Half the work of the quickest gzip, and a little smaller: this quality looks for what repeats in one pass. */
export const QUICK_BROTLI: Record<number, number> = {
  [zlib.constants.BROTLI_PARAM_QUALITY]: 1,
  [zlib.constants.BROTLI_PARAM_LGWIN]: 18,
}

/**
 * Each time the result outgrows its buffer, a thread hands over to the event loop and waits for it; what it does not fill is
 * garbage. Most pages of a database halve.
 */
const ROOM = 4096

/** On a thread of Node; the quickest level, because a backup competes with the server for the processor. */
export async function compressed(bytes: Buffer): Promise<{ bytes: Buffer; method: CompressionMethod }> {
  const smaller = zstdCompress
    ? await run(zstdCompress, bytes, {})
    : await run(zlib.brotliCompress as Codec, bytes, {
        params: QUICK_BROTLI,
        chunkSize: Math.ceil(bytes.length / 2) + ROOM,
      })
  if (smaller.length >= bytes.length) return { bytes, method: 'none' }
  return { bytes: smaller, method: zstdCompress ? 'zstd' : 'brotli' }
}

/** Throws a RangeError where the result would be longer than `mostBytes`. */
export async function expanded(bytes: Buffer, method: CompressionMethod, mostBytes: number): Promise<Buffer> {
  if (method === 'none') return bytes
  if (method === 'zstd' && !zstdDecompress) {
    throw new Error(
      `this backup is compressed with zstd, which Node ${process.version} does not have: use Node 22.15 or newer`,
    )
  }
  const codec = { zstd: zstdDecompress, brotli: zlib.brotliDecompress, gzip: zlib.gunzip }[method] as Codec
  const chunkSize = Math.min(mostBytes, Math.max(ROOM, 4 * bytes.length))
  return run(codec, bytes, { maxOutputLength: mostBytes, chunkSize })
}
