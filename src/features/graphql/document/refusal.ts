import { AppError, badRequest } from '../../../core/errors.ts'

/** What the library says is wrong with a document. */
export const asRefusal = (error: unknown): unknown =>
  error instanceof Error && error.name === 'GraphQLError' ? badRequest(error.message, 'invalid_document') : error

/** A document with several mistakes, each an entry of `errors`. */
export class InvalidDocument extends AppError {
  readonly failures: readonly { readonly message: string }[]

  constructor(failures: readonly { readonly message: string }[]) {
    super('invalid_document', failures.map(({ message }) => message).join('; '))
    this.failures = failures
  }
}
