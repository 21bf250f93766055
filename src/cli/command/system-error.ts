import { getSystemErrorMap } from 'node:util'
import { reasonOf } from '../../core/errors.ts'

/** Why a call of the system failed, in its words and without a path. */
export function causeOf(error: unknown): string {
  const { errno } = error as NodeJS.ErrnoException
  return (errno !== undefined && getSystemErrorMap().get(errno)?.[1]) || reasonOf(error)
}
