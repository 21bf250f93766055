import { AppError, unauthorized } from '../../../core/errors.ts'
import { type Identity, userIdOf } from '../../../core/identity.ts'

/** `private`: owners read. `public`: everyone does. `policies`: those on svc.objects decide about everything. */
export const BUCKET_ACCESS = ['private', 'public', 'policies'] as const
export type BucketAccess = (typeof BUCKET_ACCESS)[number]

/** Whose an object is: an account's, the operator's, or without owner. */
export type Owned = { userId: string | null; isOperators: boolean }

export const refusedFile = (): AppError => new AppError('insufficient_privilege', 'insufficient storage permissions')

export const nameTaken = (): AppError => new AppError('already_exists', 'file already exists')

/** Whether policies decide about this caller in such a bucket; the operator needs none. */
export const isPoliced = (access: BucketAccess, who: Identity): boolean => access === 'policies' && who.kind !== 'admin'

/** Anonymous callers learn nothing about a private bucket, not even which names exist. */
export function requireEntry(access: BucketAccess, who: Identity): void {
  if (access === 'private' && who.kind === 'anonymous') throw unauthorized('missing auth token')
}

/** Not of buckets with policies. */
export function requireRead(access: BucketAccess, who: Identity, object: Owned): void {
  if (access !== 'public' && !isOwner(who, object)) throw refusedFile()
}

/** Only the owner may overwrite or delete an owned object, in public buckets too. */
export function requireChange(who: Identity, object: Owned): void {
  if (!isOwner(who, object)) throw refusedFile()
}

const isOwner = (who: Identity, { userId, isOperators }: Owned): boolean =>
  who.kind === 'admin' || (!isOperators && (userId === null || userId === userIdOf(who)))
