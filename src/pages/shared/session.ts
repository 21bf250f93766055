import { ApiError, type Method, send } from './api.ts'
import type { SignedIn, User } from './api-types.ts'

/** The signed-in user's session. Kept only in memory, so that closing the page ends it. */
class Session {
  #open: SignedIn | undefined
  #renewal: Promise<void> | undefined
  /** Called when the session ends or cannot be renewed. */
  onEnd = (): void => {}

  open(answer: SignedIn): void {
    this.#open = answer
  }

  get #current(): SignedIn {
    if (!this.#open) throw new Error('You are signed out.')
    return this.#open
  }

  get user(): User {
    return this.#current.user
  }

  get refreshToken(): string {
    return this.#current.refreshToken
  }

  /** Calls the API as the signed-in user; renews an expired access token once. */
  async call<Answer = void>(method: Method, path: string, body?: unknown): Promise<Answer> {
    try {
      return await send<Answer>(method, path, { body, bearer: this.#current.token })
    } catch (error) {
      if (!(error instanceof ApiError) || error.message !== 'invalid or expired token') throw error
    }
    await this.#renew()
    return send<Answer>(method, path, { body, bearer: this.#current.token })
  }

  /** Concurrent calls share one renewal. */
  async #renew(): Promise<void> {
    this.#renewal ??= send<SignedIn>('POST', '/api/auth/refresh', { body: { refreshToken: this.refreshToken } })
      .then((answer) => this.open(answer))
      .finally(() => {
        this.#renewal = undefined
      })
    try {
      await this.#renewal
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.end()
      throw error
    }
  }

  async signOut(): Promise<void> {
    await send('POST', '/api/auth/logout', { body: { refreshToken: this.refreshToken } })
    this.end()
  }

  end(): void {
    this.#open = undefined
    this.onEnd()
  }
}

export const session = new Session()
