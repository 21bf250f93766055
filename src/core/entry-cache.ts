import { LRUCache } from 'lru-cache'

/** Keeps as many entries as it may. The package's own `max` allocates the place of each up front, 40 bytes an entry. */
export const entryCache = <V extends object | string>(
  most: number,
  options: { ttl?: number } = {},
): LRUCache<string, V> => new LRUCache({ maxSize: most, sizeCalculation: () => 1, ...options })
