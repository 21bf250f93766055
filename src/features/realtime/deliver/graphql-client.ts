import type { AppError } from '../../../core/errors.ts'
import { SocketClient } from './web-socket.ts'

/** A client of graphql-transport-ws, which takes no messages but those of the protocol: an end is a code. */
export class GraphqlClient extends SocketClient {
  override warnOfExpiry(): void {}

  override fail(error: AppError): void {
    this.end(4000 + error.status, error.message)
  }
}
