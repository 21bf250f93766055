import * as t from '../../core/json-type.ts'
import { json, type Route, route } from '../../http/route.ts'

/** A key of the configuration and its value, without secrets. */
type EffectiveSetting = {
  key: string
  type: string
  meaning: string
  source: string
  value?: unknown
  is_set: boolean
}

type ConfigRouteDeps = {
  settings: readonly EffectiveSetting[]
  /** What was changed while the server runs, or could be; by key. */
  switches: () => Readonly<Record<string, boolean>>
}

const setting = t.object({
  key: t.string(),
  type: t.string(),
  meaning: t.string(),
  source: t.oneOf(['default', 'file', 'environment', 'flag', 'override', 'run time']),
  value: t.optional(t.any({ description: 'absent where it may be a secret' })),
  is_set: t.boolean(),
  changeable: t.optional(t.boolean({ description: 'while the server runs, by PATCH /api/admin/auth-settings' })),
})

/** The configuration in force. A secret is only said to be set or not. */
export function configRoute({ settings, switches }: ConfigRouteDeps): Route {
  return route('GET /api/admin/config', {
    summary: 'The configuration in force, with where each value comes from',
    auth: 'admin',
    leastRole: 'operator',
    answers: { 200: t.object({ items: t.array(setting), count: t.integer() }) },
    handle: async () => {
      const inForce = new Map(Object.entries(switches()))
      const items = settings.map((one) => {
        const value = inForce.get(one.key)
        if (value === undefined) return one
        return { ...one, ...(value !== one.value && { value, source: 'run time' }), changeable: true }
      })
      return json(200, { items, count: items.length })
    },
  })
}
