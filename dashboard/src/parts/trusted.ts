type Policy = { createScriptURL(text: string): string }
type Factory = { createPolicy(name: string, rules: { createScriptURL(text: string): string }): Policy }

const { trustedTypes } = globalThis as { trustedTypes?: Factory }

const ADDRESS = /^\/admin\/assets\/[\w-]+\.js$/

/** The one policy of the page: it allows the addresses of its own built scripts and nothing else. */
const policy = trustedTypes?.createPolicy('savanna', {
  createScriptURL(text) {
    if (!ADDRESS.test(text)) throw new TypeError('only built scripts are run')
    return text
  },
})

export const startWorker = (address: string): Worker => new Worker(policy ? policy.createScriptURL(address) : address)
