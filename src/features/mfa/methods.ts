import type { SettingName } from '../../identity/settings.ts'

export type FactorMethod = 'totp' | 'email' | 'sms'

/** Display name and setting of each method. */
export const MFA_METHODS: Readonly<
  Record<FactorMethod, { name: string; label: string; pending: string; setting: SettingName }>
> = {
  totp: { name: 'TOTP', label: 'Authenticator app', pending: 'TOTP enrollment', setting: 'totp_enabled' },
  email: { name: 'email', label: 'Email', pending: 'email MFA enrollment', setting: 'email_mfa_enabled' },
  sms: { name: 'SMS', label: 'SMS', pending: 'SMS enrollment', setting: 'sms_enabled' },
}
