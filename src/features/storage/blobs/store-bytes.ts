import { createHash, randomUUID } from 'node:crypto'
import { type Readable, Transform } from 'node:stream'
import { type Blob, type Store, storeFailure } from './store.ts'

/** Hashes and counts while storing under a new id; resolves when the bytes are durable. */
export async function storeBytes(store: Store, source: Readable): Promise<Blob> {
  const id = randomUUID()
  const hash = createHash('sha256')
  let size = 0
  const meter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      size += chunk.length
      const room = store.takeRoom?.(chunk.length)
      if (room) room.then(() => done(null, chunk), done)
      else done(null, chunk)
    },
  })
  // The source may fail before the store listens; the store then finds the stream destroyed.
  meter.on('error', () => {})
  source.once('error', (error) => meter.destroy(error))
  try {
    await store.write(id, source.pipe(meter))
  } catch (error) {
    throw storeFailure(source.errored ?? error)
  }
  return { id, size, sha256: hash.digest('hex') }
}
