import * as t from './json-type.ts'

/** A user as responses show it; made by svc.user_json. */
export const user = t.object({
  id: t.uuid(),
  email: t.string({ description: 'empty for accounts without an address' }),
  emailVerified: t.boolean(),
  is_anonymous: t.boolean(),
  createdAt: t.time(),
  updatedAt: t.time(),
  phone: t.optional(t.string()),
  linked_at: t.optional(t.time()),
  disabled_at: t.optional(t.time()),
  metadata: t.optional(t.row),
  app_metadata: t.optional(t.row),
})
