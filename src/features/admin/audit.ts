import type { AuditEntry } from '../../core/audit-entry.ts'
import { SYSTEM } from '../../core/identity.ts'
import { MASK } from '../../core/redact.ts'
import { auditStatement } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'

export type AuditTrail = (entry: AuditEntry) => Promise<void>

/** Writes an entry on its own, for actions that have no transaction to write it in. */
export const createAudit =
  (db: Db): AuditTrail =>
  async (entry) => {
    await db.run(SYSTEM, auditStatement(entry))
  }

/** SQL as the audit log stores it, with role passwords masked. */
export const auditableQuery = (query: string): string =>
  query.slice(0, 50_000).replace(/\b(password\s+)(e?'(?:[^'\\]|''|\\.)*'|\$(\w*)\$.*?\$\3\$)/gis, `$1'${MASK}'`)
