import { AppError, type ErrorCode } from '../../core/errors.ts'

/**
 * RFC 6749, sections 4.1.2.1 and 5.2; RFC 8707, section 2; RFC 7591, section 3.2.2; OpenID Connect Core, section 3.1.2.6;
 * RFC 8628, section 3.5.
 */
export type OAuthCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'invalid_scope'
  | 'invalid_target'
  | 'invalid_redirect_uri'
  | 'invalid_client_metadata'
  | 'login_required'
  | 'consent_required'
  | 'interaction_required'
  | 'request_not_supported'
  | 'invalid_request_uri'
  | 'authorization_pending'
  | 'slow_down'
  | 'access_denied'
  | 'expired_token'

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

/** Of a form token or request_uri. */
export const usedBefore = (): OAuthError =>
  refuse('invalid_request', 'the request is unknown, expired or was used before')

/** RFC 6749, section 5.2: the response says how the client can authenticate. */
export const invalidClient = (description = 'client authentication failed'): OAuthError =>
  new OAuthError('invalid_client', description, 'unauthorized', { 'WWW-Authenticate': 'Basic realm="oauth"' })

/** Without WWW-Authenticate, for pages: a browser would show a password dialog. */
export const unknownClient = (): OAuthError => new OAuthError('invalid_client', 'unknown client', 'unauthorized')

/** OAuth errors in the format of the protocol; unknown routes and missing sessions in ours. */
export function errorBody(error: AppError): unknown {
  if (error instanceof OAuthError) return { error: error.code, error_description: error.message }
  if (error.status === 503) return { error: 'temporarily_unavailable', error_description: error.message }
  return error.toJSON()
}

/** At the token and revocation endpoints there is no session, so all other failures use the protocol's format too. */
export function tokenErrorBody(error: AppError): unknown {
  if (error instanceof OAuthError || error.status === 503 || error.status === 404 || error.status === 405) {
    return errorBody(error)
  }
  return { error: error.status === 500 ? 'server_error' : 'invalid_request', error_description: error.message }
}
