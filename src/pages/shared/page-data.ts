type Switch = 'on' | 'off'

/** The data that the server passes to each page's script, as attributes of the body. */
export type PageData = {
  account: { passkeys: Switch; totp: Switch; grants: Switch; agents: Switch; minPassword: string }
  consent: {
    passkeys: Switch
    app: string
    /** JSON of what to ask the user who is signed in by the cookie; empty = sign in first. */
    prompt: string
    formToken: string
    /** The address of that user. */
    user: string
    /** Whom the application expects. */
    login: string
    /** Why the request cannot be granted. */
    problem: string
  }
  device: {
    passkeys: Switch
    app: string
    /** From the address, to be confirmed by the user. */
    userCode: string
  }
  docs: Record<never, string>
  logout: {
    app: string
    /** Of the question; empty = the session has ended. */
    formToken: string
    user: string
    problem: string
  }
  'mail-link': { post: string; done: string; returnsTo: string }
}

export type PageName = keyof PageData
