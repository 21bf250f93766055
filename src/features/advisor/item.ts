/** `gain`: costs of a plan without and with what is advised. */
export type AdviceItem = {
  kind: string
  table: string
  what: string
  sql: string
  gain?: { before: number; after: number }
}
