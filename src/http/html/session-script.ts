/**
 * The public API for a page's script, and the session it holds: in memory, so that closing the page forgets it. Text for
 * browsers, as dom-script.ts. Offers `send` and `session`.
 */
export const sessionScript = `
/** One call; a failure is an Error with the server's own words and its status. */
async function send(method, path, { body, bearer } = {}) {
  let response
  try {
    response = await fetch(path, {
      method,
      headers: {
        accept: 'application/json',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(bearer !== undefined && { authorization: 'Bearer ' + bearer }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  } catch {
    throw new Error('The server cannot be reached. Please try again.')
  }
  const text = await response.text()
  let answer
  try {
    answer = text === '' ? undefined : JSON.parse(text)
  } catch {
    answer = { message: 'The server cannot be understood (' + response.status + '). Please try again.' }
  }
  if (response.ok) return answer
  throw Object.assign(new Error((answer && (answer.message || answer.error_description)) || 'failed (' + response.status + ')'), {
    status: response.status,
    data: answer && answer.data,
  })
}

const session = {
  tokens: undefined,
  user: undefined,
  refreshing: undefined,
  /** Told when the session is over and cannot be renewed. */
  onEnd: () => {},

  open({ token, refreshToken, user }) {
    session.tokens = { token, refreshToken }
    session.user = user
  },

  /** As the signed-in user; an access token that is over is renewed once. */
  async call(method, path, body) {
    const bearer = session.tokens && session.tokens.token
    try {
      return await send(method, path, { body, bearer })
    } catch (error) {
      if (error.message !== 'invalid or expired token' || !session.tokens) throw error
    }
    await session.renew()
    return send(method, path, { body, bearer: session.tokens.token })
  },

  /** Calls that find the token over at the same time share one renewal. */
  async renew() {
    session.refreshing ??= send('POST', '/api/auth/refresh', { body: { refreshToken: session.tokens.refreshToken } })
      .then(session.open)
      .finally(() => {
        session.refreshing = undefined
      })
    try {
      await session.refreshing
    } catch (error) {
      if (error.status === 401) session.end()
      throw error
    }
  },

  async signOut() {
    const { refreshToken } = session.tokens
    await send('POST', '/api/auth/logout', { body: { refreshToken } })
    session.end()
  },

  end() {
    session.tokens = session.user = undefined
    session.onEnd()
  },
}
`
