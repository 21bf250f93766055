import { type Config, type SettingSource, settingKeysOf, settingSourceOf, valueAt } from './config.ts'

/** A key as GET /api/admin/config shows it. */
type Setting = {
  key: string
  type: string
  meaning: string
  source: SettingSource
  /** Absent where the value may be a secret. */
  value?: unknown
  is_set: boolean
}

/** Texts that are no secret. Any other is said to be set or not, so that a new key is hidden until it stands here. */
const SHOWN = new Set([
  'server.host',
  'server.public_base_url',
  'server.app_name',
  'server.cors_origins',
  'server.trusted_proxies',
  'admin.environment',
  'auth.org_roles',
  'auth.webauthn_origins',
  'auth.sms_allowed_countries',
  'auth.oauth_return_to_allowlist',
  'api.schemas',
  'api.text_search_config',
  'email.from',
  'email.from_name',
  'email.smtp.host',
  'storage.public_sizes',
  'storage.s3_bucket',
  'storage.s3_region',
  'realtime.watch',
  'realtime.open_channels',
  'backup.schedule',
  'backup.verify',
  'backup.s3_region',
  'audit.tables',
])

/** Every setting in force, with where it comes from. */
export const settingsOf = (config: Config): Setting[] =>
  settingKeysOf(config).map(({ key, field }) => {
    const value = valueAt(config, key)
    return {
      key,
      type: field.type,
      meaning: field.meaning,
      source: settingSourceOf(config, key),
      ...((field.isPlain || SHOWN.has(key)) && { value }),
      is_set: isSet(value),
    }
  })

const isSet = (value: unknown): boolean =>
  typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : value !== '' && value !== undefined
