import { createStore } from '../parts/store.ts'
import { forgetCalls } from './calls.ts'

/** `ended`: there was one, and the page behind the sign-in form is kept with what was typed. */
export type Session = { token: string | null; ended: boolean; id: string }

const NAME = 'savanna:token'

const read = (): string | null => {
  try {
    return sessionStorage.getItem(NAME)
  } catch {
    return null
  }
}

let count = 0

export const session = createStore<Session>({ token: read(), ended: false, id: '0' })

export function signedIn(token: string): void {
  try {
    sessionStorage.setItem(NAME, token)
  } catch {
    // It lives as long as the page.
  }
  forgetCalls()
  session.set({ token, ended: false, id: String(++count) })
}

export function sessionEnded(refused: string): void {
  const { token, id } = session.get()
  // An answer to a call of an earlier session says nothing of this one.
  if (token !== refused) return
  forget()
  session.set({ token: null, ended: true, id })
}

function forget(): void {
  try {
    sessionStorage.removeItem(NAME)
  } catch {
    // It was never there.
  }
}

export function signedOut(): void {
  forget()
  forgetCalls()
  session.set({ token: null, ended: false, id: String(++count) })
}
