/** The value of a key, made when it is asked for first. */
export function getOrCreate<K, V>(made: Map<K, V>, key: K, make: () => V): V {
  const known = made.get(key) ?? make()
  made.set(key, known)
  return known
}
