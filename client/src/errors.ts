/** What the server said of a refusal. */
type Refusal = {
  readonly status: number
  /** The code that programs compare; see docs/errors.md. Empty when the answer was not the server's own. */
  readonly error: string
  /** By field or constraint. */
  readonly data?: Readonly<Record<string, unknown>> | undefined
  readonly requestId?: string | undefined
  /** Seconds. */
  readonly retryAfter?: number | undefined
  readonly method: string
  readonly path: string
}

export interface ApiError extends Refusal {}

/** What the server refused. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the constructor assigns all of it
export class ApiError extends Error {
  override readonly name: string = 'ApiError'

  constructor(message: string | undefined, refusal: Refusal) {
    super(message || `${refusal.method} ${refusal.path} answered ${refusal.status}`)
    Object.assign(this, refusal)
  }

  /** Whether this is the refusal `code`, and, if `name` is given, of that field, column or constraint. */
  is(code: string, name?: string): boolean {
    if (this.error !== code || name === undefined) return this.error === code
    return Object.entries(this.data ?? {}).some(([key, detail]) => {
      // PostgreSQL names the columns of a constraint in its detail: Key (email)=(a@b.c) already exists.
      const [, columns = ''] = /^Key \((.+?)\)=\(/.exec((detail as { message?: string } | null)?.message ?? '') ?? []
      return key === name || columns.split(/[^\w$\u0080-\uffff]+/).includes(name)
    })
  }
}

/** No answer came: no connection, a cut one, or none in time. A write may have happened. */
export class NetworkError extends Error {
  override readonly name: string = 'NetworkError'
  declare readonly method: string
  declare readonly path: string

  constructor(method: string, path: string, cause: unknown) {
    super(`${method} ${path}: ${cause instanceof Error ? cause.message : 'no answer'}`, { cause })
    Object.assign(this, { method, path })
  }
}

/** The caller is signed out: refused by the server, or changed while a call waited. */
export class SessionEnded extends Error {
  override readonly name: string = 'SessionEnded'

  constructor(cause?: unknown) {
    super('the session has ended, sign in again', { cause })
  }
}
