import { normaliseEmail } from '../../core/contact/email-address.ts'
import { AppError, notFound } from '../../core/errors.ts'
import { adminOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { LogEntry, Observe } from '../../core/observe.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { dryRunReply, isDryRun } from '../../http/dry-run.ts'
import { json, jsonText, type Route, requireEnabled, route } from '../../http/route.ts'
import type { PasswordRules } from '../../identity/password-rules.ts'
import { adminsRoutes } from './admins.ts'
import * as answers from './answers.ts'
import { type AuditTrail, auditableQuery, createAudit } from './audit.ts'
import { durabilityOf } from './durability.ts'
import { type AdminPasskeyDeps, adminPasskeyRoutes } from './passkeys.ts'
import { type AdminPasswords, type PasswordNote, syncPassword } from './password.ts'
import { createRunSql, type RunSqlDeps, wasRolledBack } from './run-sql.ts'
import { secondFactorRoutes } from './second-factor.ts'
import { type AdminTokens, createAdminTokens } from './tokens.ts'

export type AdminDeps = {
  db: Db
  config: { enabled: boolean; password: string; token_duration: number; shared_password: boolean; require_mfa: boolean }
  box: SecretBox
  appName: string
  passwordRules: PasswordRules
  /** Drops cached identities that a committed change ended. */
  dropEnded: () => Promise<void>
  passwords: AdminPasswords
  note: PasswordNote | undefined
  observe: Observe
  /** Warnings for the operator, shown by /api/admin/status. */
  warnings: () => readonly string[]
  /** It runs on a restored copy that was not taken over. */
  isDrill: boolean
  /** Entries of every process of this server, each oldest first. */
  logs: { size: number; entries: () => Promise<LogEntry[][]> }
} & Omit<RunSqlDeps, 'db' | 'observe'> &
  Pick<AdminPasskeyDeps, 'relyingParty' | 'onRefused'>

export type Admin = {
  routes: Route[]
  tokens: AdminTokens
  audit: AuditTrail
  start(): Promise<void>
  /** The password, if this process generated it at start. */
  generatedPassword(): string | undefined
}

export function createAdmin(deps: AdminDeps): Admin {
  const { db, config, warnings, logs } = deps
  const tokens = createAdminTokens(deps)
  const audit = createAudit(db)
  const runSql = createRunSql(deps)
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
        const isAdmin = bearer !== undefined && (await tokens.resolve(bearer)) !== undefined
        const told = isAdmin ? warnings() : []
        return json(200, {
          auth: config.enabled,
          ...(deps.isDrill && { drill: true }),
          ...(isAdmin && { durability: await durabilityOf(db) }),
          ...(told.length > 0 && { warnings: told }),
        })
      },
    }),

    route('POST /api/admin/auth', {
      summary: 'Sign in as an administrator: by name, or with the shared password as the first owner',
      auth: 'none',
      limit: 'admin_login',
      requires,
      body: t.object({
        email: t.optional(t.string({ format: 'email' })),
        password: t.string({ format: 'password' }),
        code: t.optional(t.string({ description: 'of the second factor' })),
      }),
      answers: { 200: t.object({ token: t.string() }) },
      handle: async ({ body }) =>
        json(200, { token: await tokens.login(body.password, body.email && normaliseEmail(body.email), body.code) }),
    }),

    route('POST /api/admin/sql', {
      summary: "Run SQL: of owners as the server's role, of others read-only",
      leastRole: 'viewer',
      auth: 'admin',
      audit: 'sql.execute',
      dryRun: 'wrapped',
      body: t.object({ query: t.string() }),
      answers: { 200: answers.sqlResult },
      handle: async (call) => {
        const { query } = call.body
        if (query.trim() === '') throw new AppError('validation_failed', 'query is required')
        // The query runs on its own connection and may commit and still fail, so its audit entry is written first.
        const isDry = isDryRun(call)
        const entry = call.audit({ newValues: { query: auditableQuery(query), ...(isDry && { dry_run: true }) } })
        const { role } = adminOf(call.who)
        const run = () => runSql(role, query, call.signal, isDry)
        const isUndone = (error: unknown) => !isDry && wasRolledBack(query, error as Error)
        const { text, told } = await auditedEffect(db, entry, run, isUndone)
        return isDry ? dryRunReply(jsonText(200, text), told) : jsonText(200, text)
      },
    }),

    route('GET /api/admin/logs', {
      summary: 'The latest log entries, oldest first',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: answers.logs },
      handle: async () => {
        if (logs.size === 0) return json(200, { entries: [], message: 'log buffer is off' })
        const all = (await logs.entries()).flat().sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))
        return json(200, { entries: all.slice(-logs.size) })
      },
    }),
  ]

  const passkeys = adminPasskeyRoutes({ ...deps, requires, issueNamed: (tx, id) => tokens.issueNamed(tx, id) })
  return {
    routes: [...routes, ...adminsRoutes(deps), ...secondFactorRoutes(deps), ...passkeys],
    tokens,
    audit,
    async start() {
      if (config.enabled) generatedPassword = await syncPassword(deps, config.password)
    },
    generatedPassword: () => generatedPassword,
  }
}
