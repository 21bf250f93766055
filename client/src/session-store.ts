export type User = {
  id: string
  email: string
  emailVerified: boolean
  is_anonymous: boolean
  createdAt: string
  updatedAt: string
  phone?: string
  linked_at?: string
  metadata?: unknown
  app_metadata?: unknown
}

/** Who is signed in. */
export type Session = {
  readonly token: string
  readonly refreshToken: string
  readonly user: User
  /** When the token was issued, by the wall clock of this machine: its age when the session is loaded again. */
  readonly at?: number
  /** Of a refresh whose answer has not arrived: sent again with it, it gets the same answer. */
  readonly key?: string
}

export type Maybe<T> = T | Promise<T>

export type SessionStore = {
  load(): Maybe<Session | null>
  save(session: Session): Maybe<void>
  clear(): Maybe<void>
  /** One at a time, over all that share the store. */
  lock?<T>(work: () => Promise<T>): Promise<T>
  /** Calls back when another tab has written. */
  onChange?(changed: () => void): void
}
