import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, hasStatus } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { type Call, json, type Reply, type Route, route } from '../../http/route.ts'
import { message } from '../../identity/responses.ts'
import { parseSettings, type SettingsStore, settingsType } from './settings.ts'

export function authAdminRoutes(deps: {
  settings: SettingsStore
  rotate: (act: AuditSource) => Promise<void>
  rotateSigningKey: (isCompromised: boolean, act: AuditSource) => Promise<void>
}): Route[] {
  const replace = async (call: Call): Promise<Reply> => {
    const after = parseSettings(call.body)
    await deps.settings.replace(after, call)
    return json(200, after)
  }
  const change = {
    summary: 'Switch ways to sign in; one that is left out is off',
    auth: 'admin' as const,
    leastRole: 'operator' as const,
    audit: 'auth_settings.update',
    accepts: settingsType,
    answers: { 200: settingsType },
    handle: replace,
  }
  return [
    route('GET /api/admin/auth-settings', {
      summary: 'Which ways to sign in are switched on',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: settingsType },
      handle: async () => json(200, deps.settings.current()),
    }),
    route('PATCH /api/admin/auth-settings', change),
    route('PUT /api/admin/auth-settings', change),
    route('POST /api/admin/secrets/rotate', {
      summary: 'Make every token of every user invalid',
      freshFactor: true,
      auth: 'admin',
      answers: { 200: message },
      audit: 'secrets.rotate',
      bodyKind: 'none',
      handle: async (call) => {
        await deps.rotate(call).catch((error) => {
          if (hasStatus(error, 503)) throw error
          throw new AppError('internal', 'failed to rotate secret', { cause: error })
        })
        return json(200, { message: 'JWT secret rotated; all user tokens are invalid' })
      },
    }),
    route('POST /api/admin/secrets/signing-key', {
      summary: 'A new key for access tokens; the old one verifies until its tokens are over, or not at all',
      freshFactor: true,
      auth: 'admin',
      body: t.object({ compromised: t.optional(t.boolean()) }),
      answers: { 200: message },
      audit: 'secrets.rotate_signing_key',
      handle: async (call) => {
        const isCompromised = call.body.compromised === true
        await deps.rotateSigningKey(isCompromised, call)
        const told = isCompromised
          ? 'tokens of the old key are invalid'
          : 'tokens of the old key stay good until they end'
        return json(200, { message: `signing key rotated; ${told}` })
      },
    }),
  ]
}
