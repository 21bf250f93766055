import type { Config } from '../config/config.ts'
import { SYSTEM } from '../core/identity.ts'
import type { Db } from '../db/db.ts'
import { sweepAll } from '../db/sweep.ts'
import { expiredOfAdminPasskeys } from '../features/admin/passkeys-sql.ts'
import { expiredOfAgents } from '../features/agents/sql.ts'
import { oldAudit } from '../features/audit/sql.ts'
import { createCleanups, type Expired, expiredOfAuth } from '../features/auth/cleanups.ts'
import { expiredAnswers } from '../features/idempotency/sql.ts'
import { dropAbandonedTotp, expiredOfMfa } from '../features/mfa/sql.ts'
import { dropExpiredGrants } from '../features/oauth-server/expired-grants.ts'
import { expiredInvites } from '../features/organizations/sql.ts'
import { expiredOfPasskeys } from '../features/passkeys/webauthn/sql.ts'
import { deactivateStaleDevices } from '../features/push/stale-devices.ts'
import { expiredOfSignIn } from '../features/sign-in/sql.ts'
import { removeOrphans } from '../features/storage/blobs/orphans.ts'
import type { Store } from '../features/storage/blobs/store.ts'
import { oldDeliveries } from '../features/webhooks/sql.ts'

/** Expired sessions, links, codes and challenges. */
export const expiredOfIdentity: readonly Expired[] = [
  ...expiredOfAuth,
  ...expiredOfSignIn,
  ...expiredOfMfa,
  ...expiredOfPasskeys,
  ...expiredOfAdminPasskeys,
  expiredInvites,
]

type CleanupDeps = { db: Db; store: Store; trimLog: () => Promise<number> }

/**
 * All cleanups by name; each resolves to the number of removed items. They are job types, and `svc cleanup` runs them
 * without a server.
 */
export const cleanupsOf = (
  config: Config,
  { db, store, trimLog }: CleanupDeps,
): Record<string, () => Promise<number>> => ({
  ...createCleanups({
    db,
    expired: expiredOfIdentity,
    anonymousRetentionDays: config.auth.anonymous_retention_days,
  }),
  unverified_totp_cleanup: () => db.run(SYSTEM, dropAbandonedTotp),
  expired_oauth_cleanup: async () => (await dropExpiredGrants(db)) + (await sweepAll(db, ...expiredOfAgents)),
  kept_answer_cleanup: () => sweepAll(db, ...expiredAnswers(config.api.idempotency_retention)),
  audit_log_retention: () => sweepAll(db, oldAudit(config.audit.retention_days)),
  change_log_trim: trimLog,
  webhook_delivery_prune: () => sweepAll(db, oldDeliveries(config.webhooks.delivery_retention)),
  storage_orphan_sweep: () => removeOrphans({ db, store, uploadMs: config.storage.upload_timeout * 1000 }),
  ...(config.push.enabled && { push_token_cleanup: () => deactivateStaleDevices(db) }),
})
