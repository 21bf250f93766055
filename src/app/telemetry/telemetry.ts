import type { Context, Span } from '@opentelemetry/api'
import type { Metrics } from '../../core/metrics.ts'
import { type OutgoingSpan, setTracer, type Tracer } from '../../core/trace.ts'
import { version } from '../../core/version.ts'
import { metricsProducer } from './otlp-metrics.ts'

export type Telemetry = { tracer: Tracer; stop(): Promise<void> }

const METRICS_EVERY_MS = 15_000
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** Traces and metrics over OTLP/HTTP. The packages are loaded here alone, when an endpoint is configured. */
export async function startTelemetry(endpoint: string, metrics: Metrics): Promise<Telemetry> {
  const [api, trace, metric, resources, traceOtlp, metricOtlp] = await load()
  const base = endpoint.replace(/\/+$/, '')
  const resource = resources.resourceFromAttributes({
    'service.name': 'savanna',
    'service.version': version,
  })
  const provider = new trace.BasicTracerProvider({
    resource,
    spanProcessors: [new trace.BatchSpanProcessor(new traceOtlp.OTLPTraceExporter({ url: `${base}/v1/traces` }))],
  })
  const reader = new metric.PeriodicExportingMetricReader({
    exporter: new metricOtlp.OTLPMetricExporter({ url: `${base}/v1/metrics` }),
    exportIntervalMillis: METRICS_EVERY_MS,
    metricProducers: [metricsProducer(metrics, resource, metric, { name: 'savanna', version })],
  })
  const meters = new metric.MeterProvider({ resource, readers: [reader] })
  const source = provider.getTracer('savanna', version)
  const { SpanKind, SpanStatusCode, ROOT_CONTEXT } = api

  /** The span of the caller or the cause; what is no traceparent (W3C Trace Context, section 3.2) is none. */
  const parentOf = (text: string | undefined): Context => {
    const [, traceId, spanId, flags] = TRACEPARENT.exec(text ?? '') ?? []
    if (traceId === undefined || spanId === undefined || /^0+$/.test(traceId) || /^0+$/.test(spanId))
      return ROOT_CONTEXT
    const traceFlags = Number.parseInt(flags ?? '00', 16) & 1
    return api.trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
  }
  const outgoing = (parent: Context, method: string, url: string): OutgoingSpan => {
    const { host } = new URL(url)
    const span = source.startSpan(
      `${method} ${host}`,
      { kind: SpanKind.CLIENT, attributes: { 'http.request.method': method, 'server.address': host } },
      parent,
    )
    return {
      traceparent: headerOf(span),
      end: (status) => {
        if (status !== undefined) span.setAttribute('http.response.status_code', status)
        if (status === undefined || status >= 400) span.setStatus({ code: SpanStatusCode.ERROR })
        span.end()
      },
    }
  }
  const tracer: Tracer = {
    request({ method, route, requestId, traceparent }) {
      const attributes = { 'http.request.method': method, 'http.route': route, 'savanna.request_id': requestId }
      const span = source.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parentOf(traceparent))
      const inside = api.trace.setSpan(ROOT_CONTEXT, span)
      return {
        traceparent: headerOf(span),
        flight: (name) => {
          const flight = source.startSpan(
            name,
            { kind: SpanKind.CLIENT, attributes: { 'db.system.name': 'postgresql' } },
            inside,
          )
          return () => flight.end()
        },
        outgoing: (to, url) => outgoing(inside, to, url),
        end: (status) => {
          span.setAttribute('http.response.status_code', status)
          if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
          span.end()
        },
      }
    },
    outgoing: (method, url, cause) => outgoing(parentOf(cause), method, url),
  }
  setTracer(tracer)
  return {
    tracer,
    async stop() {
      setTracer(undefined)
      // What a collector that is away did not take is lost; the stop of a server does not wait for it.
      await Promise.allSettled([provider.shutdown(), meters.shutdown()])
    },
  }
}

async function load() {
  try {
    return await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace-base'),
      import('@opentelemetry/sdk-metrics'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/exporter-metrics-otlp-http'),
    ])
  } catch (cause) {
    throw new Error('telemetry needs the @opentelemetry packages: run "npm install --include=optional"', { cause })
  }
}

function headerOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}
