/** The key of Schema.tables and Schema.functions. */
export const groupKey = (schema: string, name: string): string => `${schema}.${name}`

export function groupBy<K, T>(items: readonly T[], keyOfItem: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const key = keyOfItem(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}
