export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'
type Failure = { message?: string; error_description?: string; data?: { aal?: string } }

/** An error response, with the server's message. */
export class ApiError extends Error {
  readonly status: number
  /** The required assurance level, if the session's is too low. */
  readonly aal: string | undefined

  constructor(status: number, { message, error_description, data }: Failure = {}) {
    super(message || error_description || `failed (${status})`)
    this.status = status
    this.aal = data?.aal
  }
}

/** Calls the public API. */
export async function send<Answer = void>(
  method: Method,
  path: string,
  { body, bearer }: { body?: unknown; bearer?: string } = {},
): Promise<Answer> {
  const response = await fetch(path, {
    method,
    headers: {
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch(() => {
    throw new Error('The server cannot be reached. Please try again.')
  })
  const answer = parse(await response.text(), response.status)
  if (response.ok) return answer as Answer
  throw new ApiError(response.status, answer as Failure | undefined)
}

function parse(text: string, status: number): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return { message: `The server cannot be understood (${status}). Please try again.` }
  }
}
