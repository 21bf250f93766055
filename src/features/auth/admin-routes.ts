import { AppError } from '../../core/errors.ts'
import { json, type Reply, type Route, route } from '../../http/route.ts'
import { parseSettings, type SettingsStore } from './settings.ts'

export function authAdminRoutes(deps: { settings: SettingsStore; rotate: () => Promise<void> }): Route[] {
  const replace = async ({ body }: { body: unknown }): Promise<Reply> => {
    const after = parseSettings(body)
    const before = await deps.settings.replace(after)
    return { ...json(200, after), audit: { target: 'auth_settings', oldValues: before, newValues: after } }
  }
  return [
    route('GET /api/admin/auth-settings', { auth: 'admin', handle: async () => json(200, deps.settings.current()) }),
    route('PATCH /api/admin/auth-settings', { auth: 'admin', audit: 'auth_settings.update', handle: replace }),
    route('PUT /api/admin/auth-settings', { auth: 'admin', audit: 'auth_settings.update', handle: replace }),
    route('POST /api/admin/secrets/rotate', {
      auth: 'admin',
      audit: 'secrets.rotate',
      bodyKind: 'none',
      handle: async () => {
        await deps.rotate().catch((error) => {
          if (error instanceof AppError && error.kind === 'unavailable') throw error
          throw new AppError('internal', 'failed to rotate secret', { cause: error })
        })
        return json(200, { message: 'JWT secret rotated; all user tokens are invalid' })
      },
    }),
  ]
}
