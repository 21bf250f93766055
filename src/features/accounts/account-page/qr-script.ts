/**
 * QR codes (ISO/IEC 18004) of texts up to 858 bytes: byte mode, error correction L, versions 1 to 20, which is what a
 * screen shows and a phone reads. Text for browsers, as src/http/html/dom-script.ts. Offers `qrModules` and `qrImage`.
 */
export const qrScript = `
/** Rows of booleans, true = dark; undefined when the text is too long. */
function qrModules(text) {
  const ECC = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28]
  const BLOCKS = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8]
  const bytes = new TextEncoder().encode(text)

  const alignments = (version) => (version === 1 ? 0 : Math.floor(version / 7) + 2)
  const rawCodewords = (version) => {
    const n = alignments(version)
    const patterns = n === 0 ? 0 : (25 * n - 10) * n - 55 + (version >= 7 ? 36 : 0)
    return Math.floor(((16 * version + 128) * version + 64 - patterns) / 8)
  }
  const dataCodewords = (version) => rawCodewords(version) - ECC[version - 1] * BLOCKS[version - 1]
  const headBits = (version) => 4 + (version < 10 ? 8 : 16)

  let version = 1
  while (version <= 20 && headBits(version) + bytes.length * 8 > dataCodewords(version) * 8) version++
  if (version > 20) return undefined

  // Data: mode, count, bytes, terminator, padding.
  const bits = []
  const put = (value, length) => {
    for (let i = length - 1; i >= 0; i--) bits.push((value >>> i) & 1)
  }
  put(4, 4)
  put(bytes.length, headBits(version) - 4)
  for (const byte of bytes) put(byte, 8)
  const capacity = dataCodewords(version) * 8
  put(0, Math.min(4, capacity - bits.length))
  put(0, (8 - (bits.length % 8)) % 8)
  for (let pad = 0xec; bits.length < capacity; pad ^= 0xec ^ 0x11) put(pad, 8)
  const data = []
  for (let i = 0; i < bits.length; i += 8) data.push(parseInt(bits.slice(i, i + 8).join(''), 2))

  // Reed-Solomon over GF(256) with the polynomial 0x11d.
  const times = (x, y) => {
    let z = 0
    for (let i = 7; i >= 0; i--) z = (z << 1) ^ ((z >>> 7) * 0x11d) ^ (((y >>> i) & 1) * x)
    return z
  }
  const eccLength = ECC[version - 1]
  const divisor = Array(eccLength).fill(0)
  divisor[eccLength - 1] = 1
  for (let i = 0, root = 1; i < eccLength; i++, root = times(root, 2)) {
    for (let j = 0; j < eccLength; j++) divisor[j] = times(divisor[j], root) ^ (divisor[j + 1] || 0)
  }
  const remainder = (block) => {
    const rest = Array(eccLength).fill(0)
    for (const byte of block) {
      const factor = byte ^ rest.shift()
      rest.push(0)
      divisor.forEach((coefficient, i) => { rest[i] ^= times(coefficient, factor) })
    }
    return rest
  }
  const blocks = []
  const short = Math.floor(data.length / BLOCKS[version - 1])
  const longBlocks = data.length % BLOCKS[version - 1]
  for (let i = 0, at = 0; i < BLOCKS[version - 1]; i++) {
    const length = short + (i < BLOCKS[version - 1] - longBlocks ? 0 : 1)
    const block = data.slice(at, at + length)
    blocks.push({ block, ecc: remainder(block) })
    at += length
  }
  const codewords = []
  for (let i = 0; i <= short; i++) for (const { block } of blocks) if (i < block.length) codewords.push(block[i])
  for (let i = 0; i < eccLength; i++) for (const { ecc } of blocks) codewords.push(ecc[i])

  // Patterns that are always there; "fixed" keeps data and masks off them.
  const size = version * 4 + 17
  const grid = () => Array.from({ length: size }, () => Array(size).fill(false))
  const [modules, fixed] = [grid(), grid()]
  const set = (x, y, dark) => {
    if (x < 0 || y < 0 || x >= size || y >= size) return
    modules[y][x] = Boolean(dark)
    fixed[y][x] = true
  }
  for (let i = 0; i < size; i++) {
    set(6, i, i % 2 === 0)
    set(i, 6, i % 2 === 0)
  }
  const ring = (cx, cy, radius, isDark) => {
    for (let dy = -radius; dy <= radius; dy++) {
      for (let dx = -radius; dx <= radius; dx++) set(cx + dx, cy + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))))
    }
  }
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) ring(x, y, 4, (d) => d !== 2 && d !== 4)
  const count = alignments(version)
  const places = count === 0 ? [] : [6]
  const step = count === 0 ? 0 : Math.ceil((version * 4 + 4) / (count * 2 - 2)) * 2
  for (let at = size - 7; places.length < count; at -= step) places.splice(1, 0, at)
  places.forEach((x, i) => places.forEach((y, j) => {
    const inCorner = (i === 0 && j === 0) || (i === 0 && j === count - 1) || (i === count - 1 && j === 0)
    if (!inCorner) ring(x, y, 2, (d) => d !== 1)
  }))
  if (version >= 7) {
    let rest = version
    for (let i = 0; i < 12; i++) rest = (rest << 1) ^ ((rest >>> 11) * 0x1f25)
    const info = (version << 12) | rest
    for (let i = 0; i < 18; i++) {
      const [a, b] = [size - 11 + (i % 3), Math.floor(i / 3)]
      set(a, b, (info >>> i) & 1)
      set(b, a, (info >>> i) & 1)
    }
  }
  const drawFormat = (mask) => {
    const format = (1 << 3) | mask
    let rest = format
    for (let i = 0; i < 10; i++) rest = (rest << 1) ^ ((rest >>> 9) * 0x537)
    const info = ((format << 10) | rest) ^ 0x5412
    const bit = (i) => (info >>> i) & 1
    for (let i = 0; i <= 5; i++) set(8, i, bit(i))
    set(8, 7, bit(6))
    set(8, 8, bit(7))
    set(7, 8, bit(8))
    for (let i = 9; i < 15; i++) set(14 - i, 8, bit(i))
    for (let i = 0; i < 8; i++) set(size - 1 - i, 8, bit(i))
    for (let i = 8; i < 15; i++) set(8, size - 15 + i, bit(i))
    set(8, size - 8, true)
  }
  drawFormat(0)

  let at = 0
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5
    for (let vertical = 0; vertical < size; vertical++) {
      for (const x of [right, right - 1]) {
        const y = ((right + 1) & 2) === 0 ? size - 1 - vertical : vertical
        if (fixed[y][x]) continue
        if (at < codewords.length * 8) modules[y][x] = ((codewords[at >>> 3] >>> (7 - (at & 7))) & 1) === 1
        at++
      }
    }
  }

  const MASKS = [
    (x, y) => (x + y) % 2, (x, y) => y % 2, (x) => x % 3, (x, y) => (x + y) % 3,
    (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2, (x, y) => ((x * y) % 2) + ((x * y) % 3),
    (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2, (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
  ]
  const apply = (mask) => modules.forEach((row, y) => row.forEach((dark, x) => {
    if (!fixed[y][x]) row[x] = dark !== (MASKS[mask](x, y) === 0)
  }))
  /** What is hard to scan: long runs, blocks of one colour, and much more of one than of the other. */
  const penalty = () => {
    let [sum, dark] = [0, 0]
    for (let a = 0; a < size; a++) {
      for (const cell of [(b) => modules[a][b], (b) => modules[b][a]]) {
        for (let b = 1, run = 1; b <= size; b++) {
          if (b < size && cell(b) === cell(b - 1)) run++
          else {
            if (run >= 5) sum += run - 2
            run = 1
          }
        }
      }
      for (let b = 0; b < size; b++) {
        if (modules[a][b]) dark++
        const same = a > 0 && b > 0 && [modules[a - 1][b], modules[a][b - 1], modules[a - 1][b - 1]]
        if (same && same.every((one) => one === modules[a][b])) sum += 3
      }
    }
    return sum + Math.floor(Math.abs((dark * 20) / (size * size) - 10)) * 10
  }
  let best = { mask: 0, score: Infinity }
  for (let mask = 0; mask < 8; mask++) {
    apply(mask)
    drawFormat(mask)
    const score = penalty()
    if (score < best.score) best = { mask, score }
    apply(mask)
  }
  apply(best.mask)
  drawFormat(best.mask)
  return modules
}

/** An image for the page; undefined when the text is too long for one. */
function qrImage(text, label) {
  const modules = qrModules(text)
  if (!modules) return undefined
  const QUIET = 4
  const size = modules.length + 2 * QUIET
  const make = (tag, props) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag)
    for (const [name, value] of Object.entries(props)) node.setAttribute(name, value)
    return node
  }
  const path = modules.flatMap((row, y) =>
    row.flatMap((dark, x) => (dark ? ['M' + (x + QUIET) + ' ' + (y + QUIET) + 'h1v1h-1z'] : [])))
  const image = make('svg', { viewBox: '0 0 ' + size + ' ' + size, class: 'qr', role: 'img', 'aria-label': label })
  image.append(make('rect', { width: size, height: size, fill: '#fff' }), make('path', { d: path.join(''), fill: '#000' }))
  return image
}
`
