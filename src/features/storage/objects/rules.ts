import { AppError } from '../../../core/errors.ts'
import type { BucketRules } from './sql.ts'

export const fileTooLarge = (): AppError => new AppError('payload_too_large', 'file too large')
export const overQuota = (): AppError => new AppError('quota_exceeded', 'quota exceeded')

export function requireRules({ maxSize, allowedTypes }: BucketRules, contentType: string, size: number): void {
  if (maxSize !== null && size > maxSize) throw fileTooLarge()
  const [type = ''] = contentType.split(';')
  const isAllowed = (allowed: string): boolean =>
    allowed.endsWith('/*') ? type.startsWith(allowed.slice(0, -1)) : allowed === type
  if (allowedTypes !== null && !allowedTypes.some(isAllowed))
    throw new AppError('unsupported_media_type', `content type not allowed: ${type}`)
}
