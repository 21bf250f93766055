import { AppError } from '../../../core/errors.ts'

/** Turns texts into vectors, one each and in their order. */
export interface EmbeddingProvider {
  /** `dimensions`: how many the column declares; who cannot choose answers with as many as it has. */
  embed(texts: readonly string[], dimensions: number | undefined): Promise<readonly (readonly number[])[]>
}

export const NO_PROVIDER = 'semantic search is not configured: no embedding provider available'

/** The provider answered, and wants nothing of these texts: trying again cannot help. */
export class RefusedText extends AppError {
  constructor(cause?: unknown) {
    super('bad_gateway', 'embedding provider refused the text', { cause })
  }
}
