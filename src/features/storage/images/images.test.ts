import assert from 'node:assert/strict'
import { test } from 'node:test'
import sharp, { type Metadata } from 'sharp'
import { startServer } from '../../../../test/kit/kit.ts'
import { upload } from '../../../../test/kit/upload.ts'
import { ImageTransforms } from './images.ts'

const api = await startServer({ config: { 'storage.public_sizes': ['100', '200x100'] } })
const [ada, bob] = [await api.signUp('ada@example.test'), await api.signUp('bob@example.test')]
const bucketOf = (json: object) => api.call('POST /api/admin/storage/buckets', { as: 'admin', json })
await bucketOf({ name: 'vault', access: 'private' })
await bucketOf({ name: 'listed', access: 'private', sizes: ['320', '64x48'] })
const picture = (width = 800, height = 600) =>
  sharp({ create: { width, height, channels: 3, background: { r: 200, g: 30, b: 60 } } })
const send = (bucket: string, name: string, content: Uint8Array, as = ada.token) =>
  upload(api, `/api/storage/${bucket}`, { as, name, content })
await send('vault', 'a.jpg', await picture().jpeg().toBuffer())

type Got = { status: number; type: string | null; headers: Headers; bytes: Buffer; image: Metadata | undefined }
async function get(path: string, { as = ada.token, accept }: { as?: string; accept?: string } = {}): Promise<Got> {
  const answer = await fetch(`${api.url}/api/storage/${path}`, {
    headers: { ...(as && { authorization: `Bearer ${as}` }), ...(accept && { accept }) },
  })
  const bytes = Buffer.from(await answer.arrayBuffer())
  const { status, headers } = answer
  const image = status === 200 && bytes.length > 0 ? await sharp(bytes).metadata() : undefined
  return { status, type: headers.get('content-type'), headers, bytes, image }
}
const sizeOf = ({ image }: Got) => [image?.width, image?.height]
const statusOf = async (path: string) => (await get(path)).status
const kept = async () => Number((await api.sql('select count(*)::int as n from svc.transforms'))[0].n)

test('an image comes in the size, fit and format that is wanted', async () => {
  assert.deepEqual(sizeOf(await get('vault/a.jpg?width=320')), [320, 240])
  assert.deepEqual(sizeOf(await get('vault/a.jpg?height=300')), [400, 300])
  assert.deepEqual(sizeOf(await get('vault/a.jpg?width=100&height=100')), [100, 100])
  assert.deepEqual(sizeOf(await get('vault/a.jpg?width=100&height=100&fit=inside')), [100, 75])
  assert.deepEqual(sizeOf(await get('vault/a.jpg?width=100&height=100&fit=contain')), [100, 100])
  assert.deepEqual(sizeOf(await get('vault/a.jpg?width=100&dpr=2&gravity=north')), [200, 150])
  for (const [format, type] of [
    ['avif', 'heif'],
    ['webp', 'webp'],
    ['jpeg', 'jpeg'],
    ['png', 'png'],
  ] as const) {
    const got = await get(`vault/a.jpg?width=64&format=${format}&quality=60`)
    assert.deepEqual([got.type, got.image?.format], [`image/${format}`, type])
  }
  assert.equal((await get('vault/a.jpg?width=64')).type, 'image/jpeg')
})

test('the content decides what is an image, whatever the name', async () => {
  const inputs = { png: picture().png(), webp: picture().webp(), avif: picture().avif(), gif: picture().gif() }
  for (const [kind, image] of Object.entries(inputs)) {
    await send('vault', `${kind}.txt`, await image.toBuffer())
    const got = await get(`vault/${kind}.txt?width=80`)
    assert.deepEqual([got.status, ...sizeOf(got)], [200, 80, 60], kind)
    assert.equal(got.type, `image/${kind === 'gif' ? 'png' : kind}`)
  }
  const svg = Buffer.from(
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>',
  )
  const others = {
    'a.svg': svg,
    'b.jpg': svg,
    'c.png': Buffer.from('text'),
    'd.png': await picture().tiff().toBuffer(),
  }
  for (const [name, content] of Object.entries(others)) {
    await send('vault', name, content)
    assert.equal(await statusOf(`vault/${name}?width=80`), 422, name)
  }
  await send('vault', 'empty.png', new Uint8Array())
  assert.equal(await statusOf('vault/empty.png?width=80'), 422)
})

test('format=auto follows Accept, and says so', async () => {
  for (const [accept, type] of [
    ['image/avif,image/webp,*/*', 'image/avif'],
    ['image/webp,*/*', 'image/webp'],
    ['image/avif;q=0,image/webp', 'image/webp'],
    ['*/*', 'image/jpeg'],
    ['', 'image/jpeg'],
  ] as const) {
    const got = await get('vault/a.jpg?width=50&format=auto', { accept })
    assert.equal(got.type, type, accept)
    assert.match(got.headers.get('vary') ?? '', /\bAccept\b/)
  }
})

test('metadata goes, and the picture stands as it says', async () => {
  const exif = { IFD0: { Copyright: 'secret place' }, IFD3: { GPSLatitude: '51/1 30/1 0/1' } }
  const turned = await picture(200, 100).withExif(exif).withMetadata({ orientation: 6, exif }).jpeg().toBuffer()
  assert.ok(turned.includes('secret place'))
  await send('vault', 'turned.jpg', turned)
  const got = await get('vault/turned.jpg?width=50')
  assert.deepEqual([...sizeOf(got), got.image?.orientation, got.image?.exif], [50, 100, undefined, undefined])
  assert.ok(!got.bytes.includes('secret place'))
})

test('what is wanted wrongly is 400, what is too large 413', async () => {
  for (const query of [
    ...['width=0', 'width=x', 'width=-1', 'width=1.5', 'height=0', 'fit=fill', 'format=gif', 'format=svg', 'quality=0'],
    ...['quality=101', 'dpr=0', 'dpr=9', 'dpr=x', 'gravity=up'],
  ]) {
    assert.equal(await statusOf(`vault/a.jpg?${query}`), 400, query)
  }
  for (const query of ['width=4097', 'height=5000', 'width=4000&dpr=2']) {
    assert.equal(await statusOf(`vault/a.jpg?${query}`), 413, query)
  }
  await send('vault', 'strip.png', await picture(10, 2_000).png().toBuffer())
  assert.equal(await statusOf('vault/strip.png?width=40'), 413, 'the other side is bounded too')
  await send('vault', 'wide.png', await picture(5_000, 10).png().toBuffer())
  assert.equal(await statusOf('vault/wide.png?format=webp'), 413)
})

test('rights are those of the original; an image is made once and kept', async () => {
  assert.equal((await get('vault/a.jpg?width=320', { as: bob.token })).status, 403)
  assert.equal((await get('vault/a.jpg?width=320', { as: '' })).status, 401)
  const before = await kept()
  const all = await Promise.all(Array.from({ length: 10 }, () => get('vault/a.jpg?width=333')))
  assert.equal(new Set(all.map(({ headers }) => headers.get('etag'))).size, 1)
  assert.deepEqual([all.every(({ status }) => status === 200), await kept()], [true, before + 1])
  const etag = all[0]?.headers.get('etag') ?? ''
  const same = await api.call('GET /api/storage/vault/a.jpg?width=333', {
    as: ada.token,
    headers: { 'if-none-match': etag },
  })
  assert.equal(same.status, 304)
  assert.equal(same.headers.get('cache-control'), 'private, no-cache')
  const part = await api.call('GET /api/storage/vault/a.jpg?width=333', {
    as: ada.token,
    headers: { range: 'bytes=0-1' },
  })
  assert.equal(part.status, 206)
})

test('a signed URL signs the parameters, or allows any', async () => {
  const sign = async (transform: unknown): Promise<string> =>
    (await api.call('POST /api/storage/vault/a.jpg/sign', { as: ada.token, json: { transform } })).body.url.slice(13)
  const plain = await sign(undefined)
  const fixed = await sign({ width: 120, format: 'webp' })
  const any = await sign(true)
  const open = (url: string) => get(url, { as: '' })
  assert.equal((await open(plain)).status, 200)
  assert.equal((await open(`${plain}&width=120`)).status, 403)
  const got = await open(fixed)
  assert.deepEqual([got.status, got.type, ...sizeOf(got)], [200, 'image/webp', 120, 90])
  assert.match(got.headers.get('cache-control') ?? '', /^private, max-age=\d+, immutable$/)
  assert.equal((await open(fixed.replace('width=120', 'width=121'))).status, 403)
  assert.equal((await open(fixed.replace('&width=120', ''))).status, 403)
  assert.equal((await open(`${fixed}&height=5`)).status, 403)
  assert.equal((await open(`${any}&width=77`)).status, 200)
  assert.equal((await open(any)).status, 200)
  assert.equal((await open(any.replace('&transform=true', '&width=77'))).status, 403)
  const wrong = await api.call('POST /api/storage/vault/a.jpg/sign', {
    as: ada.token,
    json: { transform: { size: 1 } },
  })
  assert.equal(wrong.status, 400)
})

test('a bucket may list its sizes; a public one takes those of the configuration', async () => {
  const photo = await picture().jpeg().toBuffer()
  await send('listed', 'p.jpg', photo)
  await send('open', 'p.jpg', photo)
  for (const [query, expected] of [
    ['listed/p.jpg?width=320', 200],
    ['listed/p.jpg?width=160&dpr=2', 200],
    ['listed/p.jpg?width=64&height=48', 200],
    ['listed/p.jpg?width=321', 400],
    ['listed/p.jpg?width=320&dpr=2', 400],
    ['listed/p.jpg?format=webp', 400],
    ['open/p.jpg?width=100', 200],
    ['open/p.jpg?width=200&height=100', 200],
    ['open/p.jpg?width=101', 400],
  ] as const) {
    assert.equal(await statusOf(query), expected, query)
  }
  assert.equal((await get('open/p.jpg?width=100')).headers.get('cache-control'), 'public, max-age=86400')
  assert.equal((await bucketOf({ name: 'bad', sizes: ['0'] })).status, 400)
  assert.deepEqual((await bucketOf({ name: 'good', sizes: ['320', '640x480'] })).body.sizes, ['320', '640x480'])
})

test('the oldest images leave first', async () => {
  const small = await startServer({ on: api, config: { 'storage.transform_cache_size': '4KB' } })
  await api.sql('delete from svc.transforms')
  const noise = Buffer.alloc(300 * 300 * 3, Buffer.from(Array.from({ length: 997 }, (_, i) => (i * 7919) % 256)))
  await send(
    'vault',
    'noise.png',
    await sharp(noise, { raw: { width: 300, height: 300, channels: 3 } })
      .png()
      .toBuffer(),
  )
  for (const width of [30, 31, 32, 33]) {
    await fetch(`${small.url}/api/storage/vault/noise.png?width=${width}&format=png`, {
      headers: { authorization: `Bearer ${ada.token}` },
    }).then((answer) => answer.arrayBuffer())
  }
  const [{ bytes, sum }] =
    await api.sql(`select (select bytes::int from svc.stored_bytes where kind = 'transforms') as bytes,
    (select coalesce(sum(size), 0)::int from svc.transforms) as sum`)
  assert.ok(Number(sum) <= 4_096, `${sum} bytes`)
  assert.equal(Number(bytes), Number(sum))
  const names = (await api.sql('select parameters from svc.transforms')).map(({ parameters }) => parameters).join()
  assert.match(names, /33/)
  assert.doesNotMatch(names, /"width",30/)
})

test('without the library images are 501, in a sentence', async () => {
  const images = new ImageTransforms({ library: undefined } as ConstructorParameters<typeof ImageTransforms>[0])
  await assert.rejects(images.get({} as never, {} as never, { fit: 'cover', gravity: 'center' }), {
    status: 501,
    message: 'images need the npm package sharp, which is not installed here',
  })
})
