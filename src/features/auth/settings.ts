import type { AuditSource } from '../../core/audit-entry.ts'
import { badRequest } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { readBody } from '../../http/contract.ts'
import { type AuthSettings, SETTING_NAMES, type SettingName } from '../../identity/settings.ts'

export const settingsType = t.object(Object.fromEntries(SETTING_NAMES.map((name) => [name, t.boolean()])))

const KEY = 'auth.settings'

export const storedSettings: Sql = sql`select value from svc.settings where key = ${KEY}`

const store = (settings: AuthSettings): Sql => sql`
  insert into svc.settings (key, value) values (${KEY}, ${JSON.stringify(settings)}::jsonb)
  on conflict (key) do update set value = excluded.value, updated_at = now()`

/** Absent switches are off. */
export function parseSettings(body: unknown): AuthSettings {
  const fields = readBody(t.row, body)
  return pick((name) => {
    const value = Object.hasOwn(fields, name) ? fields[name] : false
    if (typeof value !== 'boolean') throw badRequest(`${name} must be a boolean`)
    return value
  })
}

/** Stored switches override the configured ones. */
export type SettingsStore = {
  current(): AuthSettings
  /** Takes effect in all processes within a second. */
  replace(next: AuthSettings, act: AuditSource): Promise<void>
}

type StoredSettings = { settings(): unknown; refresh(): Promise<void> }

export function createSettings(deps: { db: Db; configured: AuthSettings; stored: StoredSettings }): SettingsStore {
  const inForce = (stored: unknown): AuthSettings => {
    if (typeof stored !== 'object' || stored === null) return pick((name) => deps.configured[name])
    return pick((name) => Reflect.get(stored, name) === true)
  }
  return {
    current: () => inForce(deps.stored.settings()),
    replace: async (next, act) => {
      await changeAudited(
        deps.db,
        async (tx) => {
          // The table lock serialises changes, so that each audit entry has the values it replaced.
          await tx.run(sql`lock table svc.settings in share row exclusive mode`)
          const [row] = await tx.rows<{ value: unknown }>(storedSettings)
          await tx.run(store(next))
          await tx.run(sql`select pg_notify('svc_revocations', '')`)
          return inForce(row?.value)
        },
        (before) => act.audit({ target: 'auth_settings', oldValues: before, newValues: next }),
      )
      await deps.stored.refresh()
    },
  }
}

const pick = (value: (name: SettingName) => boolean): AuthSettings =>
  Object.fromEntries(SETTING_NAMES.map((name) => [name, value(name)])) as AuthSettings
