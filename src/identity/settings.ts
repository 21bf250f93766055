import { notFound } from '../core/errors.ts'

export const SETTING_NAMES = [
  'magic_link_enabled',
  'email_mfa_enabled',
  'anonymous_auth_enabled',
  'totp_enabled',
  'webauthn_enabled',
  'sms_enabled',
] as const

export type SettingName = (typeof SETTING_NAMES)[number]

/** Settings that an operator may change while the server runs. */
export type AuthSettings = Readonly<Record<SettingName, boolean>>

/** For `requires` of a route: 404 while the setting is off. */
export const requireSetting = (settings: () => AuthSettings, name: SettingName, what: string) => (): void => {
  if (!settings()[name]) throw notFound(`${what} is not enabled`, 'feature_disabled')
}
