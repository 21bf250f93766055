import { AppError } from '../../../core/errors.ts'

/** Turns texts into vectors, one each and in their order. */
export interface EmbeddingProvider {
  /** `dimensions` are those of the column; a provider that cannot choose returns its own number. */
  embed(texts: readonly string[], dimensions: number | undefined): Promise<readonly (readonly number[])[]>
}

export const NO_PROVIDER = 'semantic search is not configured: no embedding provider available'

/** The provider rejected these texts, so that a retry cannot help. */
export class RefusedText extends AppError {
  constructor(cause?: unknown) {
    super('bad_gateway', 'embedding provider refused the text', { cause })
  }
}
