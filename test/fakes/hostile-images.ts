import { crc32, deflateSync } from 'node:zlib'
import sharp from 'sharp'

function chunk(type: string, data: Buffer): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(data.length)
  head.write(type, 4, 'latin1')
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(Buffer.concat([head.subarray(4), data])))
  return Buffer.concat([head, data, sum])
}

/** A PNG that says it is so large, with so many bytes of nothing in it. */
function png(width: number, height: number, raw: number): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width)
  head.writeUInt32BE(height, 4)
  head.set([8, 2], 8)
  const data = deflateSync(Buffer.alloc(raw))
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    ...[chunk('IHDR', head), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))],
  ])
}

/** The same each time. */
let seed = 7
const random = (most: number): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
  return seed % most
}

/** Some 200 files that look like images: bombs, truncated, garbage, polyglots, flipped bits. The same each time. */
export async function hostileImages(): Promise<Buffer[]> {
  seed = 7
  const photo = sharp({ create: { width: 400, height: 300, channels: 3, background: 'teal' } })
  const good = await Promise.all([
    ...[photo.clone().jpeg().toBuffer(), photo.clone().png().toBuffer(), photo.clone().webp().toBuffer()],
    ...[photo.clone().avif().toBuffer(), photo.clone().gif().toBuffer()],
  ])
  const heads = [
    '\xff\xd8\xff\xe0',
    '\x89PNG\r\n\x1a\n',
    'RIFF\x10\0\0\0WEBPVP8 ',
    '\0\0\0\x18ftypavif\0\0\0\0mif1avif',
    'GIF89a',
  ]
  const bombs = [
    ...[png(60_000, 60_000, 10_000_000), png(60_000, 1, 180_001), png(1, 60_000, 120_000), png(8_000, 8_000, 1_000)],
    ...[png(0, 0, 10), png(2 ** 31 - 1, 2 ** 31 - 1, 10), png(7_000, 7_000, 0), png(4_000, 4_000, 4_000 * 12_001 + 1)],
  ]
  const truncated = good.flatMap((bytes) =>
    [0.1, 0.3, 0.5].map((part) => bytes.subarray(0, Math.ceil(bytes.length * part))),
  )
  const garbage = heads.flatMap((head) =>
    Array.from({ length: 10 }, () =>
      Buffer.concat([
        Buffer.from(head, 'latin1'),
        Buffer.from(Array.from({ length: 50 + random(500) }, () => random(256))),
      ]),
    ),
  )
  const polyglots = heads.flatMap((head) =>
    [
      '<svg xmlns="http://www.w3.org/2000/svg"/>',
      '%PDF-1.4',
      '<html><script>alert(1)</script>',
      'push graphic-context\nviewbox 0 0 9 9',
      '#!/bin/sh\nid\n',
    ].map((tail) => Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(tail)])),
  )
  const flipped = good.flatMap((bytes) =>
    Array.from({ length: 22 }, () => {
      const copy = Buffer.from(bytes)
      for (let i = 0; i < 20; i++) copy[12 + random(copy.length - 12)] = random(256)
      return copy
    }),
  )
  return [...bombs, ...truncated, ...garbage, ...polyglots, ...flipped]
}

/** Uploads them and asks for each in another size; returns how many were refused. */
export async function tryHostile(url: string, token: string, images: readonly Buffer[]): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  let refused = 0
  for (const [i, body] of images.entries()) {
    const at = `${url}/api/storage/vault/${i}.png`
    const { status } = await fetch(at, { method: 'PUT', body: new Uint8Array(body), headers })
    if (status !== 201) throw new Error(`upload ${i} was answered ${status}`)
    const answer = await fetch(`${at}?width=64&format=png`, { headers })
    const bytes = Buffer.from(await answer.arrayBuffer())
    if ([413, 422].includes(answer.status)) refused++
    // Some flipped bits leave a picture: then it is one of ours.
    else if (answer.status !== 200 || (await sharp(bytes).metadata()).width !== 64)
      throw new Error(`image ${i} was answered ${answer.status}`)
  }
  return refused
}
