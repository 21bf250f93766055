import type { AuditEntry, AuditSource } from '../../core/audit-entry.ts'
import { badRequest, found } from '../../core/errors.ts'
import { asServer, isOwner, SYSTEM } from '../../core/identity.ts'
import { auditStatement, before } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { databaseMessage } from '../../db/pg-errors.ts'
import { Ident, type Sql } from '../../db/sql.ts'
import { requireExpression } from './expression.ts'
import { requireLesserPolicy } from './lesser-policies.ts'
import { isOwnPolicy, isOwnTable } from './own-tables.ts'
import * as q from './sql.ts'

const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/
const MAX_NAME_BYTES = 63
const COMMANDS: readonly string[] = ['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE'] satisfies q.PolicyCommandRow[]

/** Policies are the owners of tables to make; the expressions run as callers. */
const SERVER = asServer('')

type TableName = { schema: string; name: string }

export type PolicyInput = {
  table: string
  name: string
  schema?: string
  command?: string
  permissive?: boolean
  roles?: readonly string[]
  using?: string
  withCheck?: string
}

/** In PostgreSQL's own words. */
const refusedBy =
  (what: string) =>
  (error: unknown): never => {
    const message = databaseMessage(error)
    throw message === undefined ? error : badRequest(`failed to ${what}: ${message}`, 'sql_error')
  }

const isName = (text: string): boolean => NAME.test(text) && text.length <= MAX_NAME_BYTES

/** Administration of row security on the exposed tables. */
export function createPolicies(deps: {
  db: Db
  schemas: readonly string[]
  /** Called after DDL is committed, so that later requests see it. */
  changed: () => Promise<void>
}) {
  const { db, schemas, changed } = deps
  const isExposed = (schema: string): boolean => schemas.includes(schema)
  /** Exposed tables, and those on which policies decide about channels and files. */
  const isTaken = ({ schema, name }: TableName): boolean => isExposed(schema) || isOwnTable(schema, name)

  /** `table` or `schema.table`; a bare name means the first exposed schema that has it. */
  async function tableNamed(text: string): Promise<TableName> {
    const parts = text.split('.')
    const [first = '', second] = parts
    if (parts.length > 2 || !parts.every(isName)) throw badRequest('invalid table name')
    return second === undefined ? bare(first) : { schema: first, name: second }
  }

  async function bare(name: string): Promise<TableName> {
    const [row] = await db.rows<{ schema: string }>(SYSTEM, q.schemaOf(schemas, name))
    return { schema: row?.schema ?? schemas[0] ?? 'public', name }
  }

  async function exposedTable(text: string): Promise<TableName> {
    const table = await tableNamed(text)
    if (!isTaken(table)) throw badRequest('invalid table name')
    return table
  }

  /** Runs with the search path of requests, so that expressions resolve functions as requests do. */
  async function change(what: string, statement: Sql, entry: AuditEntry, old: { oldValues?: Sql } = {}): Promise<void> {
    await db.run(SERVER, [auditStatement(entry, old), statement]).catch(refusedBy(what))
    await changed()
  }

  return {
    all: async (): Promise<string> => (await db.fly(SYSTEM, q.listPolicies(schemas), { givesWay: true })) ?? '[]',

    async of(text: string): Promise<string> {
      return (await db.fly(SYSTEM, q.listPolicies(schemas, await exposedTable(text)), { givesWay: true })) ?? '[]'
    },

    async status(text: string): Promise<string> {
      const { schema, name } = await tableNamed(text)
      const status = isTaken({ schema, name }) ? await db.fly(SYSTEM, q.rlsStatus(schema, name)) : null
      return found(status, 'table not found', 'table_not_found')
    },

    async create(given: PolicyInput, act: AuditSource): Promise<void> {
      const [owner = '', own = ''] = given.table.split('.')
      const input =
        isOwnTable(owner, own) && given.table === `${owner}.${own}` ? { ...given, schema: owner, table: own } : given
      const { table, name, using, withCheck, permissive = true } = input
      if (!isName(table)) throw badRequest('invalid table name')
      if (input.schema !== undefined && !(isName(input.schema) && isTaken({ schema: input.schema, name: table }))) {
        throw badRequest('invalid schema name')
      }
      if (!isName(name)) throw badRequest('invalid policy name')
      const command = (input.command ?? 'ALL').toUpperCase()
      if (!COMMANDS.includes(command)) throw badRequest(`command must be one of: ${COMMANDS.join(', ')}`)
      const roles = input.roles ?? []
      for (const role of roles) if (!isName(role)) throw badRequest(`invalid role name: ${role}`)
      const entry = act.audit({ target: name, newValues: input })
      await requireExpression(db, entry.who, using, 'USING')
      await requireExpression(db, entry.who, withCheck, 'WITH CHECK')
      const schema = input.schema ?? (await bare(table)).schema
      const policy = { name, command: command as q.PolicyCommandRow, permissive, roles, using, withCheck }
      const ident = new Ident(schema, table)
      if (!isOwner(entry.who)) {
        await requireLesserPolicy(db, entry.who, ident, [using, withCheck]).catch(refusedBy('create policy'))
      }
      await change('create policy', q.createPolicy(ident, policy), entry)
    },

    async drop(text: string, policy: string, act: AuditSource): Promise<void> {
      const table = await exposedTable(text)
      if (!isName(policy)) throw badRequest('invalid policy name')
      if (isOwnPolicy(table.schema, table.name, policy)) throw badRequest(`the policy ${policy} is the server’s own`)
      const drop = q.dropPolicy(new Ident(table.schema, table.name), policy)
      await change('drop policy', drop, act.audit(), before(q.onePolicy(table, policy)))
    },

    async switch(text: string, action: 'enable' | 'disable', act: AuditSource): Promise<void> {
      const { schema, name } = await exposedTable(text)
      const rlsEnabled = action === 'enable'
      // Its policies count in any case.
      if (isOwnTable(schema, name) && !rlsEnabled) throw badRequest(`row-level security of ${schema}.${name} stays on`)
      const entry = act.audit({ newValues: { rlsEnabled } })
      await change(
        `${action} RLS`,
        q.switchRls(new Ident(schema, name), rlsEnabled),
        entry,
        before(q.wasEnabled(schema, name)),
      )
    },
  }
}
