/** The tenant of requests that use no app's key. */
export const NO_TENANT = '00000000-0000-0000-0000-000000000000'

export type TenantUsage = {
  requests: number
  bandwidth: number
  functions: number
  jobRuns: number
  streamPeak: number
}
export type EndpointUsage = { tenant: string; endpoint: string; status: number; requests: number }
export type OrganizationUsage = { requests: number; bandwidth: number; functions: number }
export type UsageBatch = {
  tenants: Map<string, TenantUsage>
  endpoints: Map<string, EndpointUsage>
  organizations: Map<string, OrganizationUsage>
}

const newBatch = (): UsageBatch => ({ tenants: new Map(), endpoints: new Map(), organizations: new Map() })
const noUsage = (): TenantUsage => ({ requests: 0, bandwidth: 0, functions: 0, jobRuns: 0, streamPeak: 0 })

/** Counts usage in memory, because a write per request would cost more than most requests. */
export class UsageMeter {
  readonly #open = new Map<string, number>()
  #batch = newBatch()

  request(
    appId: string | null,
    method: string,
    route: string,
    status: number,
    bytes: number,
    organization?: string,
  ): void {
    const tenant = appId ?? NO_TENANT
    const used = this.#of(tenant)
    used.requests++
    used.bandwidth += bytes
    if (route === '/api/rpc/{function}') used.functions++
    const endpoint = `${method} ${route}`
    const key = `${tenant} ${status} ${endpoint}`
    const known = this.#batch.endpoints.get(key)
    if (known) known.requests++
    else this.#batch.endpoints.set(key, { tenant, endpoint, status, requests: 1 })
    if (organization !== undefined)
      this.#countOrganization(organization, 1, bytes, route === '/api/rpc/{function}' ? 1 : 0)
  }

  #countOrganization(id: string, requests: number, bandwidth: number, functions: number): void {
    const known = this.#batch.organizations.get(id) ?? { requests: 0, bandwidth: 0, functions: 0 }
    known.requests += requests
    known.bandwidth += bandwidth
    known.functions += functions
    this.#batch.organizations.set(id, known)
  }

  /** Returns the function to call when the stream closes. */
  streamOpened(appId: string | null): () => void {
    const tenant = appId ?? NO_TENANT
    const open = (this.#open.get(tenant) ?? 0) + 1
    this.#open.set(tenant, open)
    const used = this.#of(tenant)
    used.streamPeak = Math.max(used.streamPeak, open)
    return () => {
      const left = (this.#open.get(tenant) ?? 1) - 1
      if (left > 0) this.#open.set(tenant, left)
      else this.#open.delete(tenant)
    }
  }

  jobRan(): void {
    this.#of(NO_TENANT).jobRuns++
  }

  /** Returns and resets the counts. Streams that stay open count again in the next batch. */
  take(): UsageBatch {
    const taken = this.#batch
    this.#batch = newBatch()
    for (const [tenant, open] of this.#open) this.#of(tenant).streamPeak = open
    return taken
  }

  /** Adds a batch that could not be written to the current one. */
  restore({ tenants, endpoints, organizations }: UsageBatch): void {
    for (const [id, lost] of organizations) this.#countOrganization(id, lost.requests, lost.bandwidth, lost.functions)
    for (const [tenant, lost] of tenants) {
      const used = this.#of(tenant)
      for (const figure of ['requests', 'bandwidth', 'functions', 'jobRuns'] as const) used[figure] += lost[figure]
      used.streamPeak = Math.max(used.streamPeak, lost.streamPeak)
    }
    for (const [key, lost] of endpoints) {
      const known = this.#batch.endpoints.get(key)
      if (known) known.requests += lost.requests
      else this.#batch.endpoints.set(key, lost)
    }
  }

  #of(tenant: string): TenantUsage {
    // Runs for every request: a lookup of its own, because a shared function would see maps of many kinds.
    const known = this.#batch.tenants.get(tenant)
    if (known) return known
    const made = noUsage()
    this.#batch.tenants.set(tenant, made)
    return made
  }
}
