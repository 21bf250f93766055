type Store<K, V> = { get(key: K): V | undefined; set(key: K, value: V): unknown }

/** Returns the value of a key and creates it on first use. */
export function getOrCreate<K, V>(map: Store<K, V>, key: K, create: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = create()
  map.set(key, made)
  return made
}
