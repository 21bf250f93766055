export type AdviceItem = {
  kind: string
  table: string
  what: string
  sql: string
  gain?: { before: number; after: number }
}
