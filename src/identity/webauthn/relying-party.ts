/** The WebAuthn relying party: the id that passkeys are bound to, and the origins that may use them. */
export type RelyingParty = { id: string; name: string; origins: readonly string[] }

/** The host of the public URL, read on each use because with port 0 it is known only after listening. */
export const relyingPartyOf = (deps: {
  publicBaseUrl: () => string
  appName: string
  /** Additional origins that may use the passkeys of this server. */
  origins: readonly string[]
}): RelyingParty => {
  const { hostname, origin } = new URL(deps.publicBaseUrl())
  return { id: hostname, name: deps.appName, origins: [origin, ...deps.origins] }
}
