/**
 * The program of a child process that resizes images. It has none of our environment, files or sockets; a thread would neither bound
 * the memory of the library nor survive its crash. Messages both ways: the length of a head of JSON, the head, `bytes` bytes.
 */
export const IMAGE_WORKER = `
'use strict'
const sharp = require(process.argv[1])
const MAX_PIXELS = 50e6, MAX_SIDE = 4096, MAX_OUTPUT = 32 * 2 ** 20, MAX_RSS = 512 * 2 ** 20
sharp.cache(false)
sharp.concurrency(1)
const LOADERS = ['Jpeg', 'Png', 'Webp', 'Heif', 'Nsgif'].map((name) => 'VipsForeignLoad' + name + 'Buffer')
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: LOADERS })
setInterval(() => { if (process.memoryUsage.rss() > MAX_RSS) process.exit(9) }, 20)
class Refusal extends Error {}
const refuse = (kind) => { throw new Refusal(kind) }

/** The size of the output, before anything is decoded. */
function outputSize(width, height, job) {
  if (job.width !== undefined && job.height !== undefined && job.fit !== 'inside') return [job.width, job.height]
  const scales = [job.width && job.width / width, job.height && job.height / height].filter(Boolean)
  const scale = scales.length === 0 ? 1 : Math.min(...scales)
  return [Math.round(width * scale), Math.round(height * scale)]
}

async function make(input, job) {
  const options = { limitInputPixels: MAX_PIXELS, failOn: 'error', pages: 1, sequentialRead: true }
  const head = await sharp(input, options).metadata()
  const turned = (head.orientation ?? 1) >= 5
  const [width, height] = turned ? [head.height, head.width] : [head.width, head.height]
  if (!width || !height) refuse('broken')
  if (width * height > MAX_PIXELS) refuse('too large')
  const [outWidth, outHeight] = outputSize(width, height, job)
  if (outWidth > MAX_SIDE || outHeight > MAX_SIDE) refuse('too large')
  const format = job.format ?? (job.kind === 'gif' ? 'png' : job.kind)
  // Turned as its metadata says, which is dropped then.
  let image = sharp(input, options).autoOrient()
  if (job.width !== undefined || job.height !== undefined) {
    const background = format === 'jpeg' ? '#ffffff' : { r: 0, g: 0, b: 0, alpha: 0 }
    image = image.resize({ width: job.width, height: job.height, fit: job.fit, position: job.gravity === 'center' ? 'centre' : job.gravity, background })
  }
  if (format === 'jpeg') image = image.flatten({ background: '#ffffff' }).jpeg({ quality: job.quality ?? 80 })
  else if (format === 'png') image = image.png(job.quality === undefined ? {} : { quality: job.quality })
  else if (format === 'webp') image = image.webp({ quality: job.quality ?? 80 })
  else image = image.avif({ quality: job.quality ?? 50, effort: 2 })
  const { data, info } = await image.toBuffer({ resolveWithObject: true })
  if (data.length > MAX_OUTPUT) refuse('too large')
  return { data, head: { format, width: info.width, height: info.height } }
}

function kindOf(error) {
  if (error instanceof Refusal) return error.message
  return /exceeds pixel limit|too large|limit exceeded/i.test(error.message) ? 'too large' : 'broken'
}

function send(head, data = Buffer.alloc(0)) {
  const text = Buffer.from(JSON.stringify({ ...head, bytes: data.length }))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length)
  process.stdout.write(Buffer.concat([length, text, data]))
}

let pieces = [], size = 0, job
async function step() {
  for (;;) {
    if (!job) {
      if (size < 4) return
      const start = Buffer.concat(pieces)
      const length = start.readUInt32BE(0)
      if (size < 4 + length) { pieces = [start]; return }
      job = JSON.parse(start.subarray(4, 4 + length).toString())
      pieces = [start.subarray(4 + length)]
      size -= 4 + length
    }
    if (size < job.bytes) return
    const all = Buffer.concat(pieces)
    const input = all.subarray(0, job.bytes)
    pieces = [all.subarray(job.bytes)]
    size -= job.bytes
    const mine = job
    job = undefined
    try {
      const { data, head } = await make(input, mine)
      send(head, data)
    } catch (error) {
      send({ refusal: kindOf(error) })
    }
  }
}
let working = Promise.resolve()
process.stdin.on('data', (piece) => { pieces.push(piece); size += piece.length; working = working.then(step) })
process.stdin.on('end', () => process.exit(0))
process.stdin.on('error', () => process.exit(0))
process.stdout.on('error', () => process.exit(0))
`
