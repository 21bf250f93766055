import { ON_BEHALF } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { randomHex } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { json, type Route, route } from '../../http/route.ts'
import { STRANGERS_SCOPES, strangerOf } from './client-documents.ts'
import { keepStranger } from './client-sql.ts'
import { errorBody, refuse } from './errors.ts'

export type RegistrationDeps = {
  db: Db
  requires: () => void
  /** Counts a registration for the address of a caller; throws 429. */
  countRegistration: (ip: string) => Promise<void>
}

export const REGISTRATION_PATH = '/api/auth/clients'

/** Dynamic registration (RFC 7591) of public clients. A client without a consent is removed after a day. */
export const registrationRoute = ({ db, requires, countRegistration }: RegistrationDeps): Route =>
  route('POST /api/auth/clients', {
    summary: 'Register an application (RFC 7591)',
    auth: 'none',
    anyOrigin: true,
    bodyLimit: 10_000,
    requires,
    errorBody,
    accepts: t.object({
      redirect_uris: t.array(t.string()),
      client_name: t.optional(t.string()),
      scope: t.optional(t.string()),
      token_endpoint_auth_method: t.optional(t.string({ description: 'whatever is asked for, it becomes `none`' })),
    }),
    answers: {
      201: t.object({
        client_id: t.string(),
        client_id_issued_at: t.integer(),
        client_name: t.string(),
        redirect_uris: t.array(t.string()),
        grant_types: t.array(t.string()),
        response_types: t.array(t.string()),
        token_endpoint_auth_method: t.oneOf(['none']),
      }),
    },
    handle: async ({ body, ip }) => {
      if (typeof body !== 'object' || body === null || Array.isArray(body)) {
        throw refuse('invalid_client_metadata', 'the body must be a JSON object')
      }
      const { name, redirectUris } = strangerOf(body as Readonly<Record<string, unknown>>)
      await countRegistration(ip)
      const clientId = `svc_cid_${randomHex(16)}`
      const shown = name || 'An application'
      const scopes = [...STRANGERS_SCOPES]
      const made = { clientId, name: shown, redirectUris, scopes, origin: 'registered' as const }
      await db.run(ON_BEHALF, keepStranger(made))
      return {
        ...json(201, {
          client_id: clientId,
          client_id_issued_at: Math.floor(Date.now() / 1000),
          client_name: shown,
          redirect_uris: redirectUris,
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
        }),
        headers: { 'Cache-Control': 'no-store' },
      }
    },
  })
