import { AppError, badRequest } from '../../../core/errors.ts'
import type { BucketAccess } from '../objects/rights.ts'

export const FITS = ['cover', 'contain', 'inside'] as const
export const FORMATS = ['avif', 'webp', 'jpeg', 'png'] as const
const GRAVITIES = [
  ...['center', 'north', 'northeast', 'east', 'southeast', 'south', 'southwest', 'west', 'northwest'],
  ...['entropy', 'attention'],
] as const

export type ImageFormat = (typeof FORMATS)[number]

/** What is wanted of an image. Pixels are those of the output, `dpr` included. */
export type Transform = {
  width?: number
  height?: number
  fit: (typeof FITS)[number]
  format?: ImageFormat | 'auto'
  quality?: number
  gravity: (typeof GRAVITIES)[number]
}

/** Names in the query, in the order in which they are signed. */
export const TRANSFORM_NAMES = ['width', 'height', 'fit', 'format', 'quality', 'dpr', 'gravity'] as const
export type TransformName = (typeof TRANSFORM_NAMES)[number]

/** In a signed URL: any parameters may follow. */
export const ANY_TRANSFORM = 'transform=true'

type Query = Readonly<Record<string, string | undefined>>

const MAX_SIDE = 4_096

/** The parameters of a query as one text: what a signature covers, and a form of the URL. Empty if it has none. */
export function canonical(query: Query): string {
  const given = TRANSFORM_NAMES.flatMap((name) => {
    const value = query[name]
    return value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]
  })
  return given.join('&')
}

const oneOf = <T extends string>(name: TransformName, values: readonly T[], text: string): T => {
  const found = values.find((value) => value === text)
  if (found === undefined) throw badRequest(`${name} must be one of: ${values.join(', ')}`)
  return found
}

function numberIn(query: Query, name: 'width' | 'height' | 'quality' | 'dpr', most: number): number | undefined {
  const text = query[name]
  if (text === undefined) return undefined
  const isGood = name === 'dpr' ? /^\d(?:\.\d{1,2})?$/.test(text) : /^\d{1,6}$/.test(text)
  const value = Number(text)
  if (!isGood || value < 1) throw badRequest(`${name} must be a number from 1 to ${most}`)
  if (value > most) {
    if (name === 'width' || name === 'height') throw tooLarge()
    throw badRequest(`${name} must be a number from 1 to ${most}`)
  }
  return value
}

export const tooLarge = (): AppError => new AppError('payload_too_large', 'image too large')

/** Undefined if the query wants the file as it is. */
export function transformIn(query: Query): Transform | undefined {
  if (TRANSFORM_NAMES.every((name) => query[name] === undefined)) return undefined
  const dpr = numberIn(query, 'dpr', 4) ?? 1
  const side = (name: 'width' | 'height'): number | undefined => {
    const value = numberIn(query, name, MAX_SIDE)
    const pixels = value === undefined ? undefined : Math.round(value * dpr)
    if (pixels !== undefined && pixels > MAX_SIDE) throw tooLarge()
    return pixels
  }
  const [width, height, quality] = [side('width'), side('height'), numberIn(query, 'quality', 100)]
  const { fit, format, gravity } = query
  return {
    ...(width !== undefined && { width }),
    ...(height !== undefined && { height }),
    ...(quality !== undefined && { quality }),
    ...(format !== undefined && { format: oneOf('format', [...FORMATS, 'auto'] as const, format) }),
    fit: fit === undefined ? 'cover' : oneOf('fit', FITS, fit),
    gravity: gravity === undefined ? 'center' : oneOf('gravity', GRAVITIES, gravity),
  }
}

/** `320` is the width alone, `640x480` both. */
export const SIZE = /^[1-9]\d{0,3}(?:x[1-9]\d{0,3})?$/

const sizeOf = ({ width, height }: Transform): string =>
  height === undefined ? String(width ?? '') : `${width ?? ''}x${height}`

/** A bucket takes the sizes it lists; without a list a public one takes those of the configuration, others any. */
export function requireSize(
  transform: Transform,
  bucket: { access: BucketAccess; sizes: readonly string[] | null },
  publicSizes: readonly string[],
): void {
  const sizes = bucket.sizes ?? (bucket.access === 'public' ? publicSizes : undefined)
  if (sizes && !sizes.includes(sizeOf(transform)))
    throw badRequest(`size not allowed: choose one of ${sizes.join(', ') || 'none'}`)
}

/** `format=auto`: the best that the client says it takes. Undefined: as the image is. */
export function formatFor({ format }: Transform, accept: string | undefined): ImageFormat | undefined {
  if (format !== 'auto') return format
  const accepted = (accept ?? '').split(',').map((part) => part.trim().split(';'))
  const takes = (type: string): boolean =>
    accepted.some(([name, ...parameters]) => name === type && !parameters.some((p) => /^\s*q=0(?:\.0*)?$/.test(p)))
  if (takes('image/avif')) return 'avif'
  return takes('image/webp') ? 'webp' : undefined
}
