type Switch = 'on' | 'off'

/** The data that the server passes to each page's script, as attributes of the body. */
export type PageData = {
  account: { passkeys: Switch; totp: Switch; grants: Switch; agents: Switch; minPassword: string }
  consent: { passkeys: Switch; app: string }
  docs: Record<never, string>
  'mail-link': { post: string; done: string; returnsTo: string }
}

export type PageName = keyof PageData
