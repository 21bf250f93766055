import { getOrCreate } from '../../../core/get-or-create.ts'

/** The key of Schema.tables and Schema.functions. */
export const groupKey = (schema: string, name: string): string => `${schema}.${name}`

export function groupBy<K, T>(items: readonly T[], keyOfItem: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) getOrCreate(groups, keyOfItem(item), () => []).push(item)
  return groups
}
