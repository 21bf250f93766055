import { badRequest } from '../../../core/errors.ts'

/** What the library says is wrong with a document. */
export const asRefusal = (error: unknown): unknown =>
  error instanceof Error && error.name === 'GraphQLError' ? badRequest(error.message, 'invalid_document') : error
