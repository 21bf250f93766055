import { createStore } from '../parts/store.ts'

/** A question to the administrator that is open: unlock the dashboard, or let it be. */
export const unlockRequest = createStore<{ done(isUnlocked: boolean): void } | null>(null)

/** Whether the dashboard was unlocked. Several calls share one question. */
export function unlocked(): Promise<boolean> {
  return new Promise((resolve) => {
    const open = unlockRequest.get()
    unlockRequest.set({
      done(isUnlocked) {
        unlockRequest.set(null)
        open?.done(isUnlocked)
        resolve(isUnlocked)
      },
    })
  })
}
