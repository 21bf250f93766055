import { OAUTH_SCOPE_WORDS } from '../../core/scope.ts'
import { PROMPTS } from './authorization-request.ts'
import { CLAIMS_SUPPORTED } from './openid.ts'
import { REGISTRATION_PATH } from './registration.ts'

type Offers = {
  /** Ways for clients that the operator did not register. */
  hasDocuments: boolean
  hasRegistration: boolean
  /** Of ID tokens; empty where clients could not verify one. */
  algorithms: readonly string[]
}

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const SECRETS = ['client_secret_basic', 'client_secret_post']

/** RFC 8414, section 2, and OpenID Connect Discovery, section 3. */
export const metadataOf = (issuer: string, { hasDocuments, hasRegistration, algorithms }: Offers) => ({
  issuer,
  // The page for users, which calls /api/auth/authorize.
  authorization_endpoint: `${issuer}/oauth/consent`,
  token_endpoint: `${issuer}/api/auth/token`,
  revocation_endpoint: `${issuer}/api/auth/revoke`,
  introspection_endpoint: `${issuer}/api/oauth/introspect`,
  device_authorization_endpoint: `${issuer}/api/oauth/device_authorization`,
  pushed_authorization_request_endpoint: `${issuer}/api/oauth/par`,
  jwks_uri: `${issuer}/.well-known/jwks.json`,
  scopes_supported: OAUTH_SCOPE_WORDS,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: ['authorization_code', 'client_credentials', 'refresh_token', DEVICE_GRANT],
  token_endpoint_auth_methods_supported: [...SECRETS, 'none'],
  revocation_endpoint_auth_methods_supported: [...SECRETS, 'none'],
  introspection_endpoint_auth_methods_supported: SECRETS,
  code_challenge_methods_supported: ['S256'],
  authorization_response_iss_parameter_supported: true,
  require_pushed_authorization_requests: false,
  ...(algorithms.length > 0 && openidOf(issuer, algorithms)),
  ...(hasRegistration && { registration_endpoint: `${issuer}${REGISTRATION_PATH}` }),
  ...(hasDocuments && { client_id_metadata_document_supported: true }),
})

const openidOf = (issuer: string, algorithms: readonly string[]) => ({
  userinfo_endpoint: `${issuer}/api/oauth/userinfo`,
  end_session_endpoint: `${issuer}/oauth/logout`,
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: algorithms,
  acr_values_supported: ['aal1', 'aal2'],
  prompt_values_supported: PROMPTS,
  claims_supported: CLAIMS_SUPPORTED,
  claims_parameter_supported: false,
  request_parameter_supported: false,
  // Of a request object at an address of the client; what is pushed has its own endpoint.
  request_uri_parameter_supported: false,
  backchannel_logout_supported: true,
  backchannel_logout_session_supported: true,
})
