/** Who asks for passkeys: what authenticators bind them to, and the pages that may use them. */
export type RelyingParty = { id: string; name: string; origins: readonly string[] }

/** The host of the public address. It is read anew each time: with port 0 the origin is known only when the server listens. */
export const relyingPartyOf = (deps: {
  publicBaseUrl: () => string
  appName: string
  /** Other pages and applications that may use the passkeys of this server. */
  origins: readonly string[]
}): RelyingParty => {
  const { hostname, origin } = new URL(deps.publicBaseUrl())
  return { id: hostname, name: deps.appName, origins: [origin, ...deps.origins] }
}
