import { randomUUID } from 'node:crypto'
import { hmacSha256 } from '../../../core/secret.ts'
import type { Outgoing } from '../../../http/out/outgoing.ts'

/** A CDN in front of this server; its methods reject if it did not accept the purge. */
export type CdnProvider = {
  /** As the API names it. */
  name: string
  purge(urls: readonly string[]): Promise<void>
  purgeAll(): Promise<void>
}

export type CdnConfig = {
  provider: '' | 'cloudflare' | 'cloudfront' | 'webhook'
  zone_id: string
  api_token: string
  distribution_id: string
  endpoint: string
  signing_secret: string
}

const TIMEOUT_MS = 10_000

export function createCdnProvider(config: CdnConfig, outgoing: Outgoing): CdnProvider | undefined {
  switch (config.provider) {
    case '':
      return undefined
    case 'cloudflare':
      return cloudflare(config, outgoing)
    case 'cloudfront':
      return cloudfront(config.distribution_id)
    case 'webhook':
      return webhook(config, outgoing)
  }
}

async function post(outgoing: Outgoing, url: string, headers: Record<string, string>, body: string): Promise<void> {
  const { status } = await outgoing.request({
    method: 'POST',
    url,
    headers: { 'Content-Type': 'application/json', ...headers },
    body,
    timeoutMs: TIMEOUT_MS,
    maxBytes: 64 * 1024,
  })
  if (status < 200 || status > 299) throw new Error(`the cdn provider answered ${status}`)
}

/** URLs per call of the API. */
const CLOUDFLARE_URLS = 30

export function cloudflare(
  { zone_id: zone, api_token: token }: Pick<CdnConfig, 'zone_id' | 'api_token'>,
  outgoing: Outgoing,
  api = 'https://api.cloudflare.com/client/v4',
): CdnProvider {
  const url = `${api}/zones/${encodeURIComponent(zone)}/purge_cache`
  const order = (body: object) => post(outgoing, url, { Authorization: `Bearer ${token}` }, JSON.stringify(body))
  return {
    name: 'cloudflare',
    async purge(urls) {
      for (let at = 0; at < urls.length; at += CLOUDFLARE_URLS) {
        await order({ files: urls.slice(at, at + CLOUDFLARE_URLS) })
      }
    },
    purgeAll: () => order({ purge_everything: true }),
  }
}

/** Credentials come from the SDK's default chain: variables, files, instance roles. */
function cloudfront(distributionId: string): CdnProvider {
  const order = async (paths: readonly string[]): Promise<void> => {
    const { CloudFrontClient, CreateInvalidationCommand } = await import('@aws-sdk/client-cloudfront')
    const client = new CloudFrontClient({ region: 'us-east-1' })
    const batch = { CallerReference: randomUUID(), Paths: { Quantity: paths.length, Items: [...paths] } }
    try {
      const command = new CreateInvalidationCommand({ DistributionId: distributionId, InvalidationBatch: batch })
      await client.send(command, { abortSignal: AbortSignal.timeout(TIMEOUT_MS) })
    } finally {
      client.destroy()
    }
  }
  return {
    name: 'cloudfront',
    // A star would be a wildcard.
    purge: (urls) => order([...new Set(urls.map((url) => new URL(url).pathname.replaceAll('*', '%2A')))]),
    purgeAll: () => order(['/*']),
  }
}

function webhook({ endpoint, signing_secret: secret }: CdnConfig, outgoing: Outgoing): CdnProvider {
  const order = (what: object) => {
    const body = JSON.stringify(what)
    const signature = hmacSha256(secret, body).toString('hex')
    return post(outgoing, endpoint, secret === '' ? {} : { 'X-SVC-Signature': signature }, body)
  }
  return { name: 'webhook', purge: (urls) => order({ urls }), purgeAll: () => order({ purge_all: true }) }
}
