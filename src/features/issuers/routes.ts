import type { Clock } from '../../core/clock.ts'
import { userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import { linkedIdentity } from '../../identity/linked-identities.ts'
import type { OwnIdentities } from './identities.ts'

/** Tokens of other issuers (`auth.issuers`), and what else a user signs in by elsewhere. */
export const identityRoutes = (identities: OwnIdentities, clock: Clock): Route[] => [
  route('GET /api/auth/identities', {
    summary: 'Sign-ins elsewhere that open the own account',
    auth: 'user',
    answers: { 200: t.array(linkedIdentity) },
    handle: async ({ who }) => jsonText(200, await identities.list(userOf(who).id)),
  }),
  route('POST /api/auth/identities', {
    summary: 'Link the identity of a token of another issuer to the own account',
    auth: 'user',
    limit: 'login',
    body: t.object({ token: t.string({ description: 'of a configured issuer' }) }),
    answers: { 204: null },
    handle: ({ who, body }) => noContentAfter(identities.link(userOf(who), body.token, clock.now())),
  }),
  route('DELETE /api/auth/identities/{id}', {
    summary: 'Sign in by it no more',
    auth: 'user',
    params: { id: t.string() },
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(identities.remove(userOf(who), params.id)),
  }),
]
