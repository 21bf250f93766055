import { AppError, type ErrorCode } from '../../core/errors.ts'

/** RFC 6749, sections 4.1.2.1 and 5.2. */
export type OAuthCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'invalid_scope'

export class OAuthError extends AppError {
  readonly code: OAuthCode
  constructor(
    code: OAuthCode,
    description: string,
    errorCode: ErrorCode = 'bad_request',
    headers?: Record<string, string>,
  ) {
    super(errorCode, description, headers ? { headers } : {})
    this.code = code
  }
}

export const refuse = (code: Exclude<OAuthCode, 'invalid_client'>, description: string): OAuthError =>
  new OAuthError(code, description)

/** RFC 6749, section 5.2: a client that could not be authenticated is told how it could be. */
export const invalidClient = (description = 'unknown client'): OAuthError =>
  new OAuthError('invalid_client', description, 'unauthorized', { 'WWW-Authenticate': 'Basic realm="oauth"' })

/** Where a person is asked: a browser would answer the header of the other with a password dialog of its own. */
export const unknownClient = (): OAuthError => new OAuthError('invalid_client', 'unknown client', 'unauthorized')

/** Failures of the protocol in its own words; a wrong address or method, and a missing session, in ours. */
export function errorBody(error: AppError): unknown {
  if (error instanceof OAuthError) return { error: error.code, error_description: error.message }
  if (error.status === 503) return { error: 'temporarily_unavailable', error_description: error.message }
  return error.toJSON()
}

/** At the token and revocation endpoints there is no session, so every other failure is one of the request. */
export function tokenErrorBody(error: AppError): unknown {
  if (error instanceof OAuthError || error.status === 503 || error.status === 404 || error.status === 405) {
    return errorBody(error)
  }
  return { error: error.status === 500 ? 'server_error' : 'invalid_request', error_description: error.message }
}
