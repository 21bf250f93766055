import { AppError, unauthorized } from '../../core/errors.ts'
import { type Identity, userIdOf } from '../../core/identity.ts'

export type Owned = { userId: string | null }

const refused = (): AppError => new AppError('insufficient_privilege', 'insufficient storage permissions')

/** In a private bucket nobody is told anything, not even what exists, before saying who they are. */
export function requireEntry(isPublic: boolean, who: Identity): void {
  if (!isPublic && who.kind === 'anonymous') throw unauthorized('missing auth token')
}

export function requireRead(isPublic: boolean, who: Identity, object: Owned): void {
  if (!isPublic && !isOwner(who, object)) throw refused()
}

/** Overwriting and deleting: what belongs to somebody is theirs, in public buckets too. */
export function requireChange(who: Identity, object: Owned): void {
  if (!isOwner(who, object)) throw refused()
}

const isOwner = (who: Identity, { userId }: Owned): boolean =>
  who.kind === 'admin' || userId === null || userId === userIdOf(who)
