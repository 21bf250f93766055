import { normaliseEmail } from '../../core/contact/email-address.ts'
import { badRequest, notFound } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import type { Db } from '../../db/db.ts'
import { json, type Route, requireEnabled, route } from '../../http/route.ts'
import type { PasswordRules } from '../../identity/password-rules.ts'
import { adminsRoutes } from './admins.ts'
import * as answers from './answers.ts'
import { type AuditTrail, createAudit } from './audit.ts'
import {
  createProof,
  credentialFields,
  dashboardSessionRoutes,
  isUnlocked,
  markAsDashboard,
  openWithCode,
} from './dashboard-session.ts'
import { durabilityOf } from './durability.ts'
import { type LogsDeps, logRoutes } from './logs.ts'
import { type AdminPasskeyDeps, adminPasskeyRoutes, createAdminPasskeySignIn } from './passkeys.ts'
import { type AdminPasswords, type PasswordNote, syncPassword } from './password.ts'
import { secondFactorRoutes } from './second-factor.ts'
import { type SqlRouteDeps, sqlRoute } from './sql-route.ts'
import { type AdminTokens, createAdminTokens } from './tokens.ts'

export type AdminDeps = {
  db: Db
  config: {
    enabled: boolean
    password: string
    token_duration: number
    shared_password: boolean
    require_mfa: boolean
    dashboard_locked: boolean
    environment: string
  }
  box: SecretBox
  appName: string
  passwordRules: PasswordRules
  /** Drops cached identities that a committed change ended. */
  dropEnded: () => Promise<void>
  passwords: AdminPasswords
  passwordsAtStart: AdminPasswords
  note: PasswordNote | undefined
  observe: Observe
  /** Warnings for the operator, shown by /api/admin/status. */
  warnings: () => Promise<readonly string[]>
  /** It runs on a restored copy that was not taken over. */
  isDrill: boolean
  /** When a backup was last found good by restoring it; undefined without backups. */
  verifiedBackupAt: () => string | null | undefined
  logs: LogsDeps['logs']
} & Omit<SqlRouteDeps, 'db' | 'observe'> &
  Pick<AdminPasskeyDeps, 'relyingParty' | 'onRefused'>

export type Admin = {
  routes: Route[]
  tokens: AdminTokens
  audit: AuditTrail
  /** Whether a dashboard that is locked may write for now. */
  isUnlocked(tokenId: string): Promise<boolean>
  start(): Promise<void>
  drain(): void
  /** The password, if this process generated it at start. */
  generatedPassword(): string | undefined
}

export function createAdmin(deps: AdminDeps): Admin {
  const { db, config, warnings, logs } = deps
  const tokens = createAdminTokens(deps)
  const audit = createAudit(db)
  const requires = requireEnabled(config.enabled, () => notFound('admin auth not configured', 'feature_disabled'))
  let generatedPassword: string | undefined

  const routes = [
    route('GET /api/admin/status', {
      summary: 'Whether an admin can sign in, and what the operator should know',
      auth: 'none',
      answers: { 200: answers.statusAnswer },
      // Warnings name tables that anybody may write to, so only the admin reads them.
      handle: async ({ headers }) => {
        const bearer = /^bearer +([0-9a-f]{64})$/i.exec(headers['authorization'] ?? '')?.[1]
        const who = bearer === undefined ? undefined : await tokens.resolve(bearer)
        const isAdmin = who !== undefined
        const told = isAdmin ? await warnings() : []
        return json(200, {
          auth: config.enabled,
          ...(deps.isDrill && { drill: true }),
          ...(isAdmin && { durability: await durabilityOf(db) }),
          ...(isAdmin && { verified_backup_at: deps.verifiedBackupAt() }),
          ...(told.length > 0 && { warnings: told }),
          ...(who && config.environment !== '' && { environment: config.environment }),
          ...(who?.isLockable && { locked: !(await isUnlocked(db, who.tokenId)) }),
        })
      },
    }),

    route('POST /api/admin/auth', {
      summary: 'Sign in as an administrator: by name, or with the shared password as the first owner',
      auth: 'none',
      limit: 'admin_login',
      requires,
      body: t.object({
        ...credentialFields,
        password: t.optional(credentialFields.password),
        code: t.optional(
          t.string({ description: 'of the second factor; alone, the code of POST /api/admin/auth/code' }),
        ),
        client: t.optional(t.oneOf(['dashboard'])),
      }),
      answers: { 200: t.object({ token: t.string() }) },
      handle: async ({ body: { email, password, code, client } }) => {
        if (password === undefined && code !== undefined) return json(200, { token: await openWithCode(db, code) })
        if (!password) throw badRequest('password is required')
        const token = await tokens.login(password, email && normaliseEmail(email), code)
        if (client === 'dashboard') await markAsDashboard(db, token)
        return json(200, { token })
      },
    }),

    sqlRoute(deps),
  ]

  const log = logRoutes({ logs, resolveToken: tokens.resolve })
  const issueNamed: AdminPasskeyDeps['issueNamed'] = (tx, id) => tokens.issueNamed(tx, id)
  const passkeys = adminPasskeyRoutes({ ...deps, requires, issueNamed })
  const loginByPasskey = createAdminPasskeySignIn({ ...deps, issueNamed })
  return {
    routes: [
      ...routes,
      ...adminsRoutes(deps),
      ...secondFactorRoutes(deps),
      ...passkeys,
      ...log.routes,
      ...dashboardSessionRoutes({ ...deps, proveAgain: createProof({ ...tokens, loginByPasskey }) }),
    ],
    isUnlocked: (tokenId) => isUnlocked(db, tokenId),
    tokens,
    audit,
    async start() {
      if (config.enabled)
        generatedPassword = await syncPassword({ ...deps, passwords: deps.passwordsAtStart }, config.password)
    },
    drain: log.drain,
    generatedPassword: () => generatedPassword,
  }
}
