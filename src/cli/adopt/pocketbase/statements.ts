import type { CollectionField } from './collections.ts'

/** `owner`: run as the role that owns what comes along; `server`: what touches objects of ours. */
export type Statement = { by: 'owner' | 'server'; collection: string | undefined; sql: string }
export type TargetColumn = {
  name: string
  type: string
  extra: string
  from: string
  field: CollectionField | undefined
}
