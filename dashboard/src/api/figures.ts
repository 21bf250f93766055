import { useMemo } from 'react'
import { useApi } from './hooks.ts'

export type TableFigures = {
  schema: string
  name: string
  rows: number | null
  size: number
  live: boolean
  visitors: string[]
  users: string[]
}

type Answer = { database: { name: string; version: string; size: number }; tables: TableFigures[] }

/** What the catalogue says of the database and of each table, by `schema.name`. */
export function useFigures() {
  const { data, error } = useApi<Answer>('/api/admin/schema/figures', {}, { fresh: 10_000 })
  const tables = useMemo(
    () => new Map(data?.tables.map((table) => [`${table.schema}.${table.name}`, table] as const)),
    [data],
  )
  return { database: data?.database, tables, error }
}
