import { badRequest, notFound } from '../../core/errors.ts'
import { userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import { json, jsonText, noContent, noContentAfter, type Route, route } from '../../http/route.ts'
import type { SessionHooks } from '../../identity/hooks.ts'
import { signedIn } from '../../identity/responses.ts'
import { deviceOf } from '../../identity/session.ts'
import type { AuthSettings } from '../../identity/settings.ts'
import { authAdminRoutes } from './admin-routes.ts'
import { type Expired, sweepExpired } from './cleanups.ts'
import { clientTokens } from './client-tokens.ts'
import { createIdentify, type IdentifyDeps } from './identify.ts'
import type { Keys } from './jwt.ts'
import { currentKeys, keysOf, replaceAllKeys, rotateKeys } from './keys.ts'
import type { NoticeDevice } from './new-device.ts'
import { publishedKeys } from './published-keys.ts'
import type { Revocations } from './revocations.ts'
import { createSessions, type SessionConfig, type Sessions } from './sessions.ts'
import { createSettings } from './settings.ts'
import { ensureSigningKey, rotateSigningKey, type SigningAlgorithm } from './signing-keys.ts'

export type AuthDeps = Pick<
  IdentifyDeps,
  'resolveApiKey' | 'resolveAdminToken' | 'resolveOAuthToken' | 'resolveImpersonation' | 'resolveForeignToken'
> & {
  db: Db
  revocations: Revocations
  config: AuthSettings & SessionConfig & { enabled: boolean; signing_algorithm: SigningAlgorithm | 'auto' }
  publicBaseUrl: () => string
  noticeDevice: NoticeDevice
  hooks: SessionHooks
  box: SecretBox
  /** See loadRootSecret. */
  rootSecret: string
  /** Rows that the sweep removes. */
  expired: readonly Expired[]
  observe: Observe
}

/** Issues, identifies, renews and ends tokens and sessions. */
export function createAuth(deps: AuthDeps) {
  const { db, revocations, config, box } = deps
  const lifetimeMs = config.token_duration * 1000
  const known = currentKeys(
    () => revocations.secrets(),
    (stored) => keysOf(deps.rootSecret, stored, box, lifetimeMs),
  )
  let isRepairing = false
  /** All keys may have been replaced by a process with another secret: then there is none to sign with. */
  const keys = (): Keys => {
    const now = known()
    if (now.published.size === 0 && now.hs256.length === 0 && !isRepairing) {
      isRepairing = true
      void ensureSigningKey(db, config.signing_algorithm, { box, lifetimeMs })
        .then(() => revocations.refresh())
        .catch(() => undefined) // the next token tries again
        .finally(() => {
          isRepairing = false
        })
    }
    return now
  }
  /** That of the newest key, unless another is configured. */
  const algorithm = (): SigningAlgorithm =>
    config.signing_algorithm === 'auto'
      ? (revocations.secrets().signing[0]?.algorithm ?? 'ES256')
      : config.signing_algorithm
  const settings = createSettings({ db, configured: config, stored: revocations })
  const sessions = createSessions({ ...deps, keys })
  let sweeping: Loop | undefined

  return {
    routes: [
      ...(config.enabled ? sessionRoutes(sessions) : routesWhenOff),
      publishedKeys(keys, revocations.clock),
      ...authAdminRoutes({
        settings,
        rotate: async (act) => {
          await rotateKeys(db, { algorithm: algorithm(), box }, act)
          await revocations.refresh()
        },
        rotateSigningKey: async (isCompromised, act) => {
          const rotation = { algorithm: algorithm(), box, lifetimeMs }
          await (isCompromised ? replaceAllKeys(db, rotation, act) : rotateSigningKey(db, rotation, act))
          await revocations.refresh()
        },
      }),
    ],
    identify: createIdentify({ ...deps, authEnabled: config.enabled, keys }),
    settings: settings.current,
    startSession: sessions.start,
    stepUp: sessions.stepUp,
    tokenOf: sessions.tokenOf,
    endSession: sessions.endOne,
    clientTokens: clientTokens(keys, revocations.clock),
    start: () => {
      sweeping = sweepExpired(deps)
    },
    stop: async () => sweeping?.stop(),
  }
}

const refreshToken = t.object({ refreshToken: t.string() })

const session = t.object({
  id: t.uuid(),
  user_agent: t.string(),
  ip_address: t.string(),
  created_at: t.time(),
  last_active_at: t.time(),
  current: t.boolean(),
})

const sessionRoutes = (sessions: Sessions): Route[] => [
  route('POST /api/auth/refresh', {
    summary: 'A new access token, and the next refresh token',
    auth: 'none',
    once: 'refresh token',
    body: refreshToken,
    answers: { 200: signedIn },
    handle: async (call) => json(200, await sessions.refresh(call.body.refreshToken, deviceOf(call), call.once)),
  }),
  route('POST /api/auth/logout', {
    summary: 'End the session of a refresh token',
    auth: 'none',
    body: refreshToken,
    answers: { 204: null },
    handle: ({ body }) => noContentAfter(sessions.logout(body.refreshToken)),
  }),
  route('GET /api/auth/sessions', {
    summary: 'Open sessions, the most recently active first',
    auth: 'user',
    answers: { 200: t.array(session) },
    handle: async ({ who }) => {
      const { id, sessionId } = userOf(who)
      return jsonText(200, await sessions.list(id, sessionId))
    },
  }),
  route('DELETE /api/auth/sessions/{id}', {
    summary: 'End one session',
    auth: 'user',
    params: { id: t.id('session') },
    answers: { 204: null },
    handle: ({ who, params }) => noContentAfter(sessions.revoke(userOf(who).id, params.id)),
  }),
  route('DELETE /api/auth/sessions', {
    summary: 'End all sessions but the one that asks',
    auth: 'user',
    query: { all_except_current: t.string({ description: 'must be `true`' }) },
    answers: { 204: null },
    handle: async ({ who, query }) => {
      if (query['all_except_current'] !== 'true') throw badRequest('all_except_current=true is required')
      const { id, sessionId } = userOf(who)
      await sessions.revokeOthers(id, sessionId)
      return noContent
    },
  }),
]

const off = {
  summary: 'Auth is switched off',
  auth: 'none' as const,
  answers: {},
  bodyKind: 'none' as const,
  handle: async () => {
    throw notFound('auth is not enabled', 'feature_disabled')
  },
}
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const routesWhenOff = methods.map((method) => route(`${method} /api/auth/{rest...}`, off))
