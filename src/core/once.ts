/** A write with an Idempotency-Key: it happens once, and its answer is kept in its transaction. */
export type Once = {
  /** SHA-256 of the caller, the request and the key. */
  readonly id: Buffer
  /** Whose bytes the kept answer counts as; undefined if only the answer says. */
  readonly account: string | undefined
  /** Bytes that may be kept for the account and in all, before the write is refused. */
  readonly limits: { readonly account: number; readonly all: number }
  /** How long the answer is kept. */
  readonly seconds: number
  /** SHA-256 of the body; undefined until a body that is streamed has been read. */
  body: Buffer | undefined
  /** What the write and its answer need of the caller's rights; undefined until the handler has planned the write. */
  rights: readonly string[] | undefined
  /**
   * Repeats what was refused because another process makes the write, or until there is room for its answer. The handler is
   * repeated as a whole, unless it reads a body that is streamed: then it repeats what comes after that.
   */
  repeat<T>(work: () => Promise<T>): Promise<T>
  /** The encrypted answer; null if it is too large to keep. */
  seal(answer: OnceAnswer): Buffer | null
}

export type OnceAnswer = {
  readonly status: number
  readonly body: string | Buffer | readonly Buffer[]
  /** For answers that say whose they are: see Once.account. */
  readonly account?: string
  /** The answer ends with this session. */
  readonly sessionId?: string
}

/** An option of a flight or transaction. `answer` throws to roll it back. */
export type KeepOnce<Result> = { readonly key: Once; answer(result: Result): OnceAnswer }
