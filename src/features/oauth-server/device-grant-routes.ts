import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { htmlDocument } from '../../http/html/document.ts'
import { json, jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import { orderedScope, tableList } from './authorization-request.ts'
import type { Authorize } from './authorize.ts'
import type { PageDeps } from './consent-page.ts'
import { NO_STORE, requirePerson } from './consent-routes.ts'
import { DEVICE_SECONDS, type DeviceGrant, POLL_SECONDS } from './device-grant.ts'
import { required } from './grants.ts'
import { clientAndForm, clientForm } from './token-routes.ts'

export type DeviceRouteDeps = PageDeps & {
  db: Db
  devices: DeviceGrant
  authorize: Authorize
  /** Counts a device code for the address of a caller; throws 429. */
  countDevice: (ip: string) => Promise<void>
}

const deviceRequest = t.object({
  client_id: t.string(),
  client_name: t.string(),
  scope: t.string(),
  allowed_tables: t.array(t.string(), { description: 'empty = all' }),
})

export function deviceGrantRoutes(deps: DeviceRouteDeps): Route[] {
  const { db, devices, requires } = deps
  const page = () => `${deps.publicBaseUrl()}/oauth/device`
  return [
    route('POST /api/oauth/device_authorization', {
      summary: 'Codes for a device without a browser (RFC 8628)',
      ...clientForm,
      requires,
      bodyLimit: 16_000,
      accepts: t.object({
        client_id: t.optional(t.string()),
        client_secret: t.optional(t.string()),
        scope: t.string(),
        allowed_tables: t.optional(t.string({ description: 'comma list; absent = all' })),
      }),
      answers: {
        200: t.object({
          device_code: t.string(),
          user_code: t.string({ description: 'for the user to type' }),
          verification_uri: t.string(),
          verification_uri_complete: t.string(),
          expires_in: t.integer(),
          interval: t.integer({ description: 'seconds between two polls of the token endpoint' }),
        }),
      },
      handle: async (call) => {
        const { client, form } = await clientAndForm(db, call)
        const [scope, tables] = [orderedScope(required(form, 'scope')), tableList(form['allowed_tables'])]
        await deps.authorize.checkGrant(client, { scope, tables, resource: form['resource'] ?? '' })
        await deps.countDevice(call.ip)
        const { deviceCode, userCode } = await devices.begin(client, scope, tables)
        const body = {
          device_code: deviceCode,
          user_code: userCode,
          verification_uri: page(),
          verification_uri_complete: `${page()}?user_code=${userCode}`,
          expires_in: DEVICE_SECONDS,
          interval: POLL_SECONDS,
        }
        return { ...json(200, body), headers: NO_STORE }
      },
    }),

    route('GET /api/oauth/device', {
      summary: 'What a user code asks for: client, scope and tables',
      auth: 'user',
      requires,
      query: { user_code: t.string() },
      answers: { 200: deviceRequest },
      handle: async ({ who, query, ip }) => ({
        ...jsonText(200, await devices.show(requirePerson(who), query['user_code'] ?? '', ip)),
        headers: NO_STORE,
      }),
    }),
    route('POST /api/oauth/device', {
      summary: "The user's decision about a user code",
      auth: 'user',
      requires,
      body: t.object({ user_code: t.string(), decision: t.oneOf(['approve', 'deny']) }),
      answers: { 204: null },
      handle: ({ who, body, ip }) =>
        noContentAfter(devices.decide(requirePerson(who), body.user_code, body.decision, ip)),
    }),

    route('GET /oauth/device', {
      summary: 'Page where people type the code that a device shows',
      auth: 'none',
      requires,
      query: { user_code: t.string({ description: 'shown to the user, who confirms it' }) },
      answers: { 200: { content: 'text/html' } },
      handle: ({ query }) =>
        htmlDocument({
          page: 'device',
          title: `${deps.appName}: connect a device`,
          body: '<main></main>',
          data: {
            passkeys: deps.hasPasskeys() ? 'on' : 'off',
            app: deps.appName,
            userCode: (query['user_code'] ?? '').slice(0, 20),
          },
        }),
    }),
  ]
}
