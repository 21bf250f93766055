/** Replaces a secret in logs and in the audit. */
export const MASK = '***'

/** Parameters of URLs and forms. */
const SECRET_PARAMETERS =
  'token|code|state|sig|signature|refreshToken|refresh_token|access_token|id_token|mfa_token|' +
  'client_secret|code_verifier|assertion|password|secret|api_key|apikey'

/** Fields of the server's own records. */
export const SECRET_FIELD: RegExp = /passw|secret|token|credential|private|(^|_)key$|apiKey$|(^|_)hash$/i

/** Columns of the user's tables. */
export const SECRET_COLUMN: RegExp = /password|secret|token/i

const PARAMETER = new RegExp(`(^|[?&;#\\s"])(${SECRET_PARAMETERS})=[^&;#\\s"']*`, 'gi')
const BEARER = /\b(bearer|basic) +[\w.~+/=-]+/gi
const URL_PASSWORD = /(:\/\/[^\s/:@]*):[^\s/@]+@/g

/**
 * Masks the values of secret parameters, bearers and passwords in URLs. Most texts contain none of the three marks and
 * return at the first line.
 */
export function redact(text: string): string {
  if (!text.includes('=') && !text.includes('://') && !text.includes(' ')) return text
  return text.replace(PARAMETER, `$1$2=${MASK}`).replace(BEARER, `$1 ${MASK}`).replace(URL_PASSWORD, `$1:${MASK}@`)
}
