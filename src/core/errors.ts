/** One code per status, for failures about which a client needs only the status. */
export const generalErrors = {
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  gone: 410,
  precondition_failed: 412,
  too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  expectation_failed: 417,
  unprocessable: 422,
  locked: 423,
  upgrade_required: 426,
  rate_limited: 429,
  headers_too_large: 431,
  internal: 500,
  not_implemented: 501,
  bad_gateway: 502,
  unavailable: 503,
  timeout: 504,
  insufficient_storage: 507,
} as const

/** One code per situation to which a client can react. docs/errors.md says when each occurs. */
const specific = {
  validation_failed: 400,
  invalid_body: 400,
  unknown_column: 400,
  unknown_relation: 400,
  unknown_table: 400,
  unknown_reference: 400,
  invalid_filter: 400,
  invalid_sort: 400,
  invalid_search: 400,
  invalid_cursor: 400,
  invalid_key: 400,
  invalid_idempotency_key: 400,
  invalid_geometry: 400,
  invalid_vector: 400,
  invalid_arguments: 400,
  invalid_document: 400,
  invalid_template: 400,
  invalid_email: 400,
  invalid_phone: 400,
  invalid_link: 400,
  weak_password: 400,
  captcha_required: 400,
  captcha_failed: 400,
  no_primary_key: 400,
  query_too_complex: 400,
  extension_missing: 400,
  provider_not_configured: 400,
  provider_denied: 400,
  sql_error: 400,
  history_too_short: 400,
  invalid_token: 401,
  invalid_refresh_token: 401,
  invalid_credentials: 401,
  invalid_code: 401,
  mfa_required: 401,
  admin_required: 401,
  insufficient_scope: 403,
  insufficient_role: 403,
  insufficient_aal: 403,
  hook_refused: 403,
  origin_not_allowed: 403,
  account_is_anonymous: 403,
  account_not_anonymous: 403,
  last_credential: 403,
  invalid_signed_url: 403,
  row_security_failed: 403,
  feature_disabled: 404,
  record_not_found: 404,
  collection_not_found: 404,
  changes_not_found: 404,
  history_closed: 404,
  table_not_found: 404,
  view_not_found: 404,
  index_not_found: 404,
  function_not_found: 404,
  bucket_not_found: 404,
  file_not_found: 404,
  upload_not_found: 404,
  user_not_found: 404,
  session_not_found: 404,
  identity_not_found: 404,
  grant_not_found: 404,
  agent_not_found: 404,
  pending_not_found: 404,
  challenge_not_found: 404,
  factor_not_found: 404,
  enrolment_not_found: 404,
  credential_not_found: 404,
  app_not_found: 404,
  api_key_not_found: 404,
  device_code_not_found: 404,
  oauth_client_not_found: 404,
  job_not_found: 404,
  schedule_not_found: 404,
  backup_not_found: 404,
  webhook_not_found: 404,
  delivery_not_found: 404,
  device_not_found: 404,
  template_not_found: 404,
  embedding_not_found: 404,
  tenant_not_found: 404,
  organization_not_found: 404,
  member_not_found: 404,
  invitation_not_found: 404,
  site_not_found: 404,
  deploy_not_found: 404,
  view_not_writable: 405,
  already_exists: 409,
  undo_conflict: 409,
  email_taken: 409,
  account_taken: 409,
  already_enrolled: 409,
  challenge_used: 409,
  limit_reached: 409,
  bucket_not_empty: 409,
  in_progress: 409,
  already_done: 409,
  wrong_state: 409,
  code_expired: 410,
  import_failed: 422,
  idempotency_key_reused: 422,
  checksum_mismatch: 460,
  payload_too_large: 413,
  quota_exceeded: 413,
  response_too_large: 413,
  too_many_attempts: 429,
  app_rate_limited: 429,
  connection_limit: 429,
  filter_too_slow: 429,
  provider_rate_limited: 429,
  provider_failed: 502,
  hook_failed: 503,
  server_busy: 503,
  shutting_down: 503,
  database_unavailable: 503,
  transaction_conflict: 503,
  secret_unreadable: 503,
  service_disabled: 503,
  provider_unavailable: 503,
  statement_timeout: 504,
  provider_timeout: 504,
} as const

/** Errors of PostgreSQL about the request's data keep their PostgreSQL condition name (appendix A of its manual). */
const conditions = {
  cardinality_violation: 400,
  data_exception: 400,
  string_data_right_truncation: 400,
  numeric_value_out_of_range: 400,
  invalid_datetime_format: 400,
  datetime_field_overflow: 400,
  division_by_zero: 400,
  character_not_in_repertoire: 400,
  invalid_parameter_value: 400,
  invalid_regular_expression: 400,
  invalid_text_representation: 400,
  untranslatable_character: 400,
  foreign_key_violation: 400,
  with_check_option_violation: 400,
  generated_always: 400,
  datatype_mismatch: 400,
  raise_exception: 400,
  insufficient_privilege: 403,
  unique_violation: 409,
  exclusion_violation: 409,
  not_null_violation: 422,
  check_violation: 422,
} as const

/** All error codes; the code decides the HTTP status. */
export const errorCatalogue = { ...generalErrors, ...specific, ...conditions } as const

export type ErrorCode = keyof typeof errorCatalogue
type CodeOf<Status extends number> = {
  [Code in ErrorCode]: (typeof errorCatalogue)[Code] extends Status ? Code : never
}[ErrorCode]

export type FieldErrors = Record<string, { code: string; message: string } | LineErrors>
/** Errors in rows of an import. */
type LineErrors = readonly { line: number; message: string }[]
type Details = {
  data?: FieldErrors
  /** Members of the body beside `data`. */
  beside?: Readonly<Record<string, unknown>>
  headers?: Record<string, string>
  cause?: unknown
}

export class AppError extends Error {
  readonly errorCode: ErrorCode
  readonly data: FieldErrors | undefined
  readonly beside: Readonly<Record<string, unknown>> | undefined
  /** Response headers of this failure, such as Retry-After or Allow. */
  readonly headers: Record<string, string> | undefined

  constructor(errorCode: ErrorCode, message: string, details: Details = {}) {
    super(message, { cause: details.cause })
    this.errorCode = errorCode
    this.data = details.data
    this.beside = details.beside
    this.headers = details.headers
  }

  get status(): number {
    return errorCatalogue[this.errorCode]
  }

  toJSON(): { code: number; error: ErrorCode; message: string; data?: FieldErrors } {
    const { status: code, errorCode: error, message, data, beside } = this
    return { code, error, message, ...(data && { data }), ...beside }
  }
}

/** A mistake of ours, to be passed on as it is: 500, its stack in the log. Libraries and the system give errors a code. */
export const isMistake = (error: unknown): boolean =>
  (error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError) && !('code' in error)

/** By default: a field or parameter that is missing or has an invalid value. */
export const badRequest = (message: string, code: CodeOf<400> = 'validation_failed', details: Details = {}): AppError =>
  new AppError(code, message, details)
export const notFound = (message: string, code: CodeOf<404> = 'not_found', details: Details = {}): AppError =>
  new AppError(code, message, details)
/** The value, or 404 if there is none. */
export function found<T>(value: T | null | undefined, message: string, code: CodeOf<404>): T {
  if (value === null || value === undefined) throw notFound(message, code)
  return value
}
export const unauthorized = (message: string, code: CodeOf<401> = 'unauthorized'): AppError =>
  new AppError(code, message, { headers: { 'WWW-Authenticate': 'Bearer' } })
export const unavailable = (
  message: string,
  retryAfterSeconds = 1,
  code: CodeOf<503> = 'unavailable',
  cause?: unknown,
): AppError => new AppError(code, message, { headers: { 'Retry-After': String(retryAfterSeconds) }, cause })

export const serverBusy = (): AppError => unavailable('server busy', 1, 'server_busy')
export const databaseUnavailable = (cause?: unknown): AppError =>
  unavailable('database unavailable', 1, 'database_unavailable', cause)

/** The connection was lost while a write was at work: it may or may not be committed. */
export const outcomeUnknown = (cause?: unknown): AppError =>
  new AppError('database_unavailable', 'database unavailable', {
    cause,
    headers: { 'Retry-After': '1' },
    data: { outcome: { code: 'unknown', message: OUTCOME_UNKNOWN } },
  })
const OUTCOME_UNKNOWN =
  'the connection to the database was lost before it answered: the write may be done or not; ' +
  'a request with an Idempotency-Key can be repeated safely'

export const hasStatus = (error: unknown, status: number): error is AppError =>
  error instanceof AppError && error.status === status

/** The message of any thrown value, for logs. */
export const reasonOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))
