import { SCOPE_WORDS } from '../../core/scope.ts'
import { REGISTRATION_PATH } from './registration.ts'

/** Ways for clients that the operator did not register. */
type Strangers = { hasDocuments: boolean; hasRegistration: boolean }

/** RFC 8414, section 2. */
export const metadataOf = (issuer: string, { hasDocuments, hasRegistration }: Strangers) => ({
  issuer,
  // The page for users, which calls /api/auth/authorize.
  authorization_endpoint: `${issuer}/oauth/consent`,
  token_endpoint: `${issuer}/api/auth/token`,
  revocation_endpoint: `${issuer}/api/auth/revoke`,
  scopes_supported: SCOPE_WORDS,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: ['authorization_code', 'client_credentials', 'refresh_token'],
  token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
  revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
  code_challenge_methods_supported: ['S256'],
  authorization_response_iss_parameter_supported: true,
  ...(hasRegistration && { registration_endpoint: `${issuer}${REGISTRATION_PATH}` }),
  ...(hasDocuments && { client_id_metadata_document_supported: true }),
})
