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
})
