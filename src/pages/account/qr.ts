import { encode } from 'uqr'

/** Light modules around the code, required by ISO/IEC 18004, section 9.1. */
const QUIET_ZONE = 4

/** A QR code as an image; undefined when the text is too long. */
export function qrImage(text: string, label: string): SVGElement | undefined {
  const modules = modulesOf(text)
  if (!modules) return undefined
  const path = modules.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : '')))
  const image = svg('svg', {
    viewBox: `0 0 ${modules.length} ${modules.length}`,
    class: 'qr',
    role: 'img',
    'aria-label': label,
  })
  image.append(svg('path', { d: path.join(''), fill: '#000' }))
  return image
}

function modulesOf(text: string): boolean[][] | undefined {
  try {
    return encode(text, { border: QUIET_ZONE }).data
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

function svg(tag: string, props: Readonly<Record<string, string>>): SVGElement {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag) as SVGElement
  for (const [name, value] of Object.entries(props)) node.setAttribute(name, value)
  return node
}
