import { randomUUID } from 'node:crypto'
import type { AuditSource } from '../../core/audit-entry.ts'
import { badRequest, found, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { pageEnvelope } from '../../core/page.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { audited, before, MADE_RECORD } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import type { Receiver } from './attempt.ts'
import { webhookSecrets } from './sealed.ts'
import * as q from './sql.ts'

export const EVENTS = ['create', 'update', 'delete'] as const
const MAX_SECRET = 1_024
const MAX_TABLES = 1_000

const fields = {
  secret: t.optional(t.nullable(t.string({ description: `signs the events; at most ${MAX_SECRET} characters` }))),
  events: t.optional(t.array(t.string(), { description: `of ${EVENTS.join(', ')}; empty = all` })),
  tables: t.optional(t.array(t.string(), { description: 'empty = all' })),
  enabled: t.optional(t.boolean()),
}
export const newHook = t.object({ url: t.string(), ...fields })
export const hookChange = t.object({ url: t.optional(t.string()), ...fields })
type HookInput = t.TypeOf<typeof hookChange>

export type Hooks = {
  all(): Promise<string>
  one(id: string): Promise<string>
  /** Changes write their audit entry in the same flight. */
  create(input: HookInput, act: AuditSource): Promise<string>
  change(id: string, input: HookInput, act: AuditSource): Promise<string>
  remove(id: string, act: AuditSource): Promise<void>
  /** Undefined if the webhook was deleted. */
  target(id: string): Promise<(Receiver & { enabled: boolean }) | undefined>
  deliveries(id: string, query: { failedOnly: boolean; page: number; perPage: number; offset: number }): Promise<object>
  delivery(id: string, deliveryId: string): Promise<unknown>
}

type Deps = {
  db: Db
  box: SecretBox
  assertAllowedUrl: (url: string) => void
  /** A statement that removes the queued events of a webhook. */
  clearQueue: (webhookId: string) => Sql
}

export function createHooks({ db, box, assertAllowedUrl, clearQueue }: Deps): Hooks {
  const { context } = webhookSecrets
  const requireHook = (text: string | null): string => found(text, 'webhook not found', 'webhook_not_found')

  /** Absent and empty mean the same for the URL and the secret; null clears the secret. */
  function valuesOf(input: HookInput, id: string) {
    const url = input.url?.trim() || undefined
    if (url !== undefined) assertAllowedUrl(url)
    const { secret } = input
    if (secret && secret.length > MAX_SECRET) throw badRequest('secret is too long')
    return {
      url,
      secret: secret ? box.seal(secret, context(id)) : secret === null ? null : undefined,
      events: eventsOf(input.events),
      tables: tablesOf(input.tables),
      enabled: input.enabled,
    }
  }

  return {
    all: async () => (await db.fly(SYSTEM, q.allHooks)) ?? '[]',
    one: async (id) => requireHook(await db.fly(SYSTEM, q.oneHook(id))),

    async create(input, act) {
      const id = randomUUID()
      const { url, secret = null, events = EVENTS, tables = [], enabled = true } = valuesOf(input, id)
      if (url === undefined) throw badRequest('url is required')
      const added = q.addHook(id, { url, secret, events, tables, enabled })
      return requireHook(await db.fly(SYSTEM, audited(act.audit({ target: id }), added, MADE_RECORD)))
    },

    async change(id, input, act) {
      const noted = { ...MADE_RECORD, ...before(q.oneHook(id)) }
      const change = audited(act.audit({ target: id }), q.changeHook(id, valuesOf(input, id)), noted)
      const answers = await db.fly(SYSTEM, input.enabled === false ? [clearQueue(id), change] : [change])
      return requireHook(answers.at(-1) ?? null)
    },

    async remove(id, act) {
      const removal = audited(act.audit({ target: id }), q.removeHook(id), before(q.oneHook(id)))
      if ((await db.run(SYSTEM, [clearQueue(id), removal])) === 0)
        throw notFound('webhook not found', 'webhook_not_found')
    },

    async target(id) {
      const [row] = await db.rows<{ url: string; secret: string | null; enabled: boolean }>(SYSTEM, q.hookTarget(id))
      return row && { ...row, secret: () => (row.secret === null ? undefined : box.open(row.secret, context(id))) }
    },

    async deliveries(id, { failedOnly, page, perPage, offset }) {
      const text = await db.fly(SYSTEM, q.deliveriesOf(id, { failedOnly, limit: perPage, offset }))
      const { exists, total, items } = JSON.parse(text ?? '{}') as { exists: boolean; total: number; items: unknown[] }
      if (!exists) throw notFound('webhook not found', 'webhook_not_found')
      return pageEnvelope(items, page, perPage, total)
    },

    async delivery(id, deliveryId) {
      const text = await db.fly(SYSTEM, q.oneWebhookDelivery(id, deliveryId))
      const { exists, delivery } = JSON.parse(text ?? '{}') as { exists: boolean; delivery: unknown }
      if (!exists) throw notFound('webhook not found', 'webhook_not_found')
      return found(delivery, 'delivery not found', 'delivery_not_found')
    },
  }
}

function eventsOf(names: string[] | undefined): readonly string[] | undefined {
  const wrong = names?.find((name) => !EVENTS.some((event) => event === name))
  if (wrong !== undefined) throw badRequest(`invalid event: ${wrong} (must be create, update, or delete)`)
  return names && (names.length === 0 ? EVENTS : EVENTS.filter((event) => names.includes(event)))
}

function tablesOf(names: string[] | undefined): string[] | undefined {
  if (names && names.length > MAX_TABLES) throw badRequest(`too many tables: max ${MAX_TABLES}`)
  return names && [...new Set(names.map((name) => name.trim()).filter(Boolean))]
}
