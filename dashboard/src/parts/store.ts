import { useSyncExternalStore } from 'react'

export type Store<T> = {
  get(): T
  set(value: T): void
  use(): T
  subscribe(listener: () => void): () => void
}

/** A value that the whole page shares. */
export function createStore<T>(initial: T): Store<T> {
  let value = initial
  const listeners = new Set<() => void>()
  const get = (): T => value
  const subscribe = (listener: () => void): (() => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  return {
    get,
    subscribe,
    set(next) {
      if (Object.is(next, value)) return
      value = next
      for (const listener of [...listeners]) listener()
    },
    use: () => useSyncExternalStore(subscribe, get),
  }
}

/** Of this browser; what cannot be kept (private windows, a full disk) is not. */
export const kept = {
  read(name: string): unknown {
    try {
      return JSON.parse(localStorage.getItem(`savanna:${name}`) ?? 'null')
    } catch {
      return null
    }
  },
  write(name: string, value: unknown): void {
    try {
      localStorage.setItem(`savanna:${name}`, JSON.stringify(value))
    } catch {
      // Nothing depends on it.
    }
  },
}
