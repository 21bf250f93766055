import { AppError, unauthorized } from '../../core/errors.ts'
import { type Identity, userIdOf } from '../../core/identity.ts'

/** Whose an object is: an account's, the operator's, or without owner. */
export type Owned = { userId: string | null; isOperators: boolean }

const refused = (): AppError => new AppError('insufficient_privilege', 'insufficient storage permissions')

/** Anonymous callers learn nothing about a private bucket, not even which names exist. */
export function requireEntry(isPublic: boolean, who: Identity): void {
  if (!isPublic && who.kind === 'anonymous') throw unauthorized('missing auth token')
}

export function requireRead(isPublic: boolean, who: Identity, object: Owned): void {
  if (!isPublic && !isOwner(who, object)) throw refused()
}

/** Only the owner may overwrite or delete an owned object, in public buckets too. */
export function requireChange(who: Identity, object: Owned): void {
  if (!isOwner(who, object)) throw refused()
}

const isOwner = (who: Identity, { userId, isOperators }: Owned): boolean =>
  who.kind === 'admin' || (!isOperators && (userId === null || userId === userIdOf(who)))
