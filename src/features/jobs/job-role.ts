import { AppError } from '../../core/errors.ts'
import { type Identity, isOwner } from '../../core/identity.ts'

const OF_REQUESTS: readonly unknown[] = ['svc_anon', 'svc_authenticated']

/** Functions run as other roles than those of requests for the owner alone, because those roles may be more than a lesser administrator is. */
export function requireRoleOfRequests(who: Identity, type: string, payload: Readonly<Record<string, unknown>>): void {
  if (type !== 'sql' || isOwner(who) || OF_REQUESTS.includes(payload['role'])) return
  throw new AppError('insufficient_role', `only an owner may run SQL as another role than ${OF_REQUESTS.join(' and ')}`)
}
