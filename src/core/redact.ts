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

/** Masks the values of secret parameters, bearers and passwords in URLs. Every line of the log passes here, and has few of the marks. */
export function redact(text: string): string {
  let masked = text
  if (masked.includes('=')) masked = masked.replace(PARAMETER, `$1$2=${MASK}`)
  if (masked.includes(' ')) masked = masked.replace(BEARER, `$1 ${MASK}`)
  if (masked.includes('://')) masked = masked.replace(URL_PASSWORD, `$1:${MASK}@`)
  return masked
}

/** Bearers of this server and JWTs, wherever they stand; and what opens a link by its path. */
const TOKEN = /\b(?:svc_[A-Za-z0-9_]{16,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|[0-9a-f]{64})(?![\w-])/g
const PATH_TOKEN = /\/[\w-]{40,}/g
const CODE = /\b\d{4,10}\b/g

/** As `redact`, for what administrators of any role may read: tokens on their own are masked too. */
export const maskSecrets = (text: string): string => redact(text).replace(TOKEN, MASK).replace(PATH_TOKEN, `/${MASK}`)

/** A message to a person, whose link or code is the secret. */
export const maskMessage = (text: string): string => maskSecrets(text).replace(CODE, MASK)

/** A string of JSON; with a colon it is a key, and the number behind it may be its value. */
const JSON_STRING = /"[^"\\]*(?:\\.[^"\\]*)*"(?:(\s*:\s*)(-?\d[\d.eE+-]*)?)?/g
const SECRET_MEMBER =
  /passw|secret|token|credential|private|authorization|cookie|(^"|_)(code|codes|otp|pin|key)"$|apiKey"$/i
const LONGEST_KEY = 200

/** The same in a JSON text, which is not parsed: its numbers stay as they are. Members of secret names are masked whole. */
export function maskJson(text: string): string {
  let isSecret = false
  return text.replace(JSON_STRING, (whole: string, colon?: string, number?: string) => {
    if (colon !== undefined) {
      const name = whole.slice(0, whole.length - colon.length - (number?.length ?? 0))
      isSecret = name.length < LONGEST_KEY && SECRET_MEMBER.test(name)
      return isSecret && number !== undefined ? `${name}${colon}"${MASK}"` : whole
    }
    return isSecret ? `"${MASK}"` : JSON.stringify(maskSecrets(JSON.parse(whole) as string))
  })
}

/** Only the tokens in the strings of a JSON text: its members are named by others, so their names say nothing. */
export const maskValues = (text: string): string =>
  text.replace(JSON_STRING, (whole: string, colon?: string) =>
    colon === undefined ? JSON.stringify(maskSecrets(JSON.parse(whole) as string)) : whole,
  )
