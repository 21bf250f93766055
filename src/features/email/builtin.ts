import type { TemplateSource } from './template.ts'

export type Builtin = TemplateSource & {
  variables: readonly string[]
  /** Internal templates can be overridden by key but are not listed until they are. */
  internal?: true
}

const page = (body: string): string => `<!doctype html>
<html>
<body style="margin:0;padding:24px;font-family:sans-serif;font-size:16px;line-height:1.5;color:#222">
<div style="max-width:520px;margin:0 auto">
${body}
<p style="color:#777;font-size:13px">{{.AppName}}</p>
</div>
</body>
</html>
`

const button = (label: string): string =>
  `<p><a href="{{.ActionURL}}" style="display:inline-block;padding:10px 18px;background:#222;color:#fff;text-decoration:none;border-radius:6px">${label}</a></p>
<p style="font-size:13px">Or open this address: {{.ActionURL}}</p>`

const withLink = (subject: string, sentence: string, label: string, ignore: string): Builtin => ({
  subject,
  html: page(`<p>${sentence}</p>\n${button(label)}\n<p>${ignore}</p>`),
  variables: ['AppName', 'ActionURL'],
})

const internal = (subject: string, body: string, variables: readonly string[]): Builtin => ({
  subject,
  html: page(body),
  variables,
  internal: true,
})

export const builtins: ReadonlyMap<string, Builtin> = new Map([
  [
    'auth.password_reset',
    withLink(
      'Reset your password',
      'Somebody asked to reset the password of your {{.AppName}} account.',
      'Choose a new password',
      'The link works once, for one hour. If it was not you, ignore this mail; your password stays as it is.',
    ),
  ],
  [
    'auth.email_verification',
    withLink(
      'Verify your email',
      'Please confirm that this address belongs to your {{.AppName}} account.',
      'Verify email',
      'If you did not create an account, ignore this mail.',
    ),
  ],
  [
    'auth.magic_link',
    withLink(
      'Your login link',
      'Use this link to sign in to {{.AppName}}.',
      'Sign in',
      'The link works once and for a short time. If you did not ask for it, ignore this mail.',
    ),
  ],
  [
    'auth.email_change',
    {
      ...withLink(
        'Confirm your new address',
        'Please confirm that your {{.AppName}} account shall have this address.',
        'Use this address',
        'The link works once, for one day. If you did not ask for it, ignore this mail.',
      ),
      internal: true,
    },
  ],
  [
    'auth.email_changed',
    {
      ...withLink(
        'Your address was changed',
        'Your {{.AppName}} account has another address now, and this one no longer signs in.',
        'Take it back',
        'If you changed it, you need to do nothing. If not, take it back within a day: every session ends, and you set a new password.',
      ),
      internal: true,
    },
  ],
  [
    'auth.invitation',
    {
      ...withLink(
        'Your {{.AppName}} account',
        'An account on {{.AppName}} was made for you.',
        'Choose a password',
        'The link works once, for seven days.',
      ),
      internal: true,
    },
  ],
  [
    'auth.org_invitation',
    {
      ...withLink(
        'Invitation to {{.Organization}}',
        '{{.Inviter}} invites you to {{.Organization}} on {{.AppName}}.',
        'See the invitation',
        'It is good once, for seven days, for the account of this address. If you do not know the sender, ignore this mail.',
      ),
      variables: ['AppName', 'ActionURL', 'Organization', 'Inviter'],
      internal: true,
    },
  ],
  [
    'auth.mfa_code',
    internal(
      'Your verification code',
      '<p>Your {{.AppName}} verification code:</p>\n<p style="font-size:28px;letter-spacing:4px"><b>{{.Code}}</b></p>\n<p>If you did not try to sign in, change your password.</p>',
      ['AppName', 'Code'],
    ),
  ],
  [
    'auth.security_notice',
    internal(
      'Security notice',
      '<p>{{.Notice}}</p>\n<p>If this was not you, reset your password and review your sessions.</p>',
      ['AppName', 'Notice'],
    ),
  ],
])
