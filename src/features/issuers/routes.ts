import type { Clock } from '../../core/clock.ts'
import { userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { noContentAfter, type Route, route } from '../../http/route.ts'
import type { createForeigners } from './accounts.ts'

/** Tokens of other issuers (`auth.issuers`). */
export const issuerRoutes = (foreigners: ReturnType<typeof createForeigners>, clock: Clock): Route[] => [
  route('POST /api/auth/identities', {
    summary: 'Link the identity of a token of another issuer to the own account',
    auth: 'user',
    limit: 'login',
    body: t.object({ token: t.string({ description: 'of a configured issuer' }) }),
    answers: { 204: null },
    handle: ({ who, body }) => noContentAfter(foreigners.link(userOf(who), body.token, clock.now())),
  }),
]
