import { type Config, publicBaseUrl } from '../config/config.ts'
import type { HttpServerConfig } from '../http/server.ts'

export const serverConfig = (config: Config): HttpServerConfig => ({
  host: config.server.host,
  port: config.server.port,
  publicBaseUrl: publicBaseUrl(config),
  corsOrigins: config.server.cors_origins,
  trustedProxies: config.server.trusted_proxies,
  bodyLimit: config.server.body_limit,
  shutdownTimeoutSeconds: config.server.shutdown_timeout,
  rateLimits: config.rate_limit,
  anonymous: config.api.anonymous,
  tls:
    config.server.tls_cert_file === ''
      ? undefined
      : { certFile: config.server.tls_cert_file, keyFile: config.server.tls_key_file },
  // Longer than an upload, so that a slow upload gets the storage feature's error instead of the parser's.
  timeouts: { headersMs: 60_000, requestMs: Math.max(300, config.storage.upload_timeout + 15) * 1000 },
})
