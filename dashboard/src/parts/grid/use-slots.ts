import { useRef } from 'react'

/**
 * A key for each row in view. A row keeps its own while it is there, so that its focus stays; one that comes takes that of one
 * that went, so that elements are filled anew instead of made anew: making them is most of the time of a long jump.
 */
export function useSlots(indices: readonly number[]): ReadonlyMap<number, number> {
  const before = useRef<ReadonlyMap<number, number>>(new Map())
  const now = new Map<number, number>()
  for (const index of indices) {
    const slot = before.current.get(index)
    if (slot !== undefined) now.set(index, slot)
  }
  const taken = new Set(now.values())
  let free = 0
  for (const index of indices) {
    if (now.has(index)) continue
    while (taken.has(free)) free++
    now.set(index, free++)
  }
  before.current = now
  return now
}
