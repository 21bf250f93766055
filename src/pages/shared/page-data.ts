type Switch = 'on' | 'off'

/** What the server passes to the script of each page, as attributes of the body. */
export type PageData = {
  account: { passkeys: Switch; totp: Switch; minPassword: string }
  consent: { passkeys: Switch; app: string }
  docs: Record<never, string>
  'mail-link': { post: string; done: string; returnsTo: string }
}

export type PageName = keyof PageData
