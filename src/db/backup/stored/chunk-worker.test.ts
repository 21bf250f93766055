import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { ChunkWorker, type Cut } from './chunk-worker.ts'
import { AHEAD, CHUNK, flagsOf, MOST_CHUNK, Seals } from './seal.ts'

const seals = new Seals({ passphrase: 'only for tests' })
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

async function opened(name: string, sealed: readonly Buffer[]): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of seals.open(name, sealed)) parts.push(part)
  return Buffer.concat(parts)
}

test('chunks of the thread open to what they were, and files across them have their checksums', async () => {
  const words = Buffer.from('ordinary words '.repeat(CHUNK / 8))
  // What does not shrink is stored as it is.
  const all = Buffer.concat([words, randomBytes(2 * CHUNK), words.subarray(0, 1_000)])
  const files = [
    { from: 512, to: 700 },
    { from: 1_000, to: all.length - 600 },
    { from: all.length - 500, to: all.length - 500 },
    { from: all.length - 400, to: all.length },
  ]
  const cuts = files.flatMap(({ from, to }): Cut[] => [
    { at: from, does: 'begin' },
    { at: to, does: 'end' },
  ])
  const worker = new ChunkWorker(AHEAD + 1, CHUNK)
  await worker.started()
  const sums: string[] = []
  const [methods, sealed] = [new Set<string>(), [] as Buffer[]]
  let from = 0
  const press = async (chunk: Buffer) => {
    const to = from + chunk.length
    const inside = cuts.filter(({ at }) => at >= from && (at < to || to === all.length))
    const moved = inside.map(({ at, does }) => ({ at: at - from, does }))
    from = to
    const pressed = await worker.press(chunk, moved)
    sums.push(...pressed.sums)
    methods.add(pressed.method)
    return { ...pressed, flags: flagsOf(pressed.method) }
  }
  for await (const part of seals.seal('base', [all], press)) sealed.push(part)
  await worker.close()

  assert.deepEqual(
    sums,
    files.map((file) => sha256(all.subarray(file.from, file.to))),
  )
  assert.equal(methods.size, 2)
  assert.ok(Buffer.concat(sealed).length < all.length - CHUNK)
  assert.ok((await opened('base', sealed)).equals(all))
})

test('a chunk that cannot be made fails, and so do those after it', async () => {
  const worker = new ChunkWorker(1, CHUNK)
  await worker.close()
  await assert.rejects(worker.press(Buffer.from('late'), []), /a thread of the backup has ended/)
})

test('what an earlier version made with gzip, in chunks of a megabyte, is opened', async () => {
  const writer = await seals.writer('base')
  const [one, two] = [Buffer.alloc(MOST_CHUNK, 'one'), Buffer.alloc(MOST_CHUNK, 'two')]
  const sealed = [
    writer.header,
    writer.chunk({ bytes: gzipSync(one), flags: 2 }, false),
    writer.chunk({ bytes: gzipSync(two), flags: 2 }, true),
  ]
  assert.ok((await opened('base', sealed)).equals(Buffer.concat([one, two])))
})
