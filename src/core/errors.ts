/** Everything a client may be told, in one screen: the kind of a failure decides its HTTP status. */
const catalogue = {
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

export type ErrorKind = keyof typeof catalogue
export type FieldErrors = Record<string, { code: string; message: string } | LineErrors>
/** What is wrong with rows of an import. */
type LineErrors = readonly { line: number; message: string }[]
type Details = { data?: FieldErrors; headers?: Record<string, string>; cause?: unknown }

export class AppError extends Error {
  readonly kind: ErrorKind
  readonly data: FieldErrors | undefined
  /** Response headers that belong to this failure, such as Retry-After or Allow. */
  readonly headers: Record<string, string> | undefined

  constructor(kind: ErrorKind, message: string, details: Details = {}) {
    super(message, { cause: details.cause })
    this.kind = kind
    this.data = details.data
    this.headers = details.headers
  }

  get status(): number {
    return catalogue[this.kind]
  }

  toJSON(): { code: number; message: string; data?: FieldErrors } {
    return { code: this.status, message: this.message, ...(this.data && { data: this.data }) }
  }
}

export const badRequest = (message: string): AppError => new AppError('bad_request', message)
export const notFound = (message: string): AppError => new AppError('not_found', message)
export const unauthorized = (message: string): AppError =>
  new AppError('unauthorized', message, { headers: { 'WWW-Authenticate': 'Bearer' } })
export const unavailable = (message: string, retryAfterSeconds = 1): AppError =>
  new AppError('unavailable', message, { headers: { 'Retry-After': String(retryAfterSeconds) } })

/** The text of any thrown thing, for logs. */
export const reasonOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))
