import type { Attributes, HrTime } from '@opentelemetry/api'
import type { MetricProducer } from '@opentelemetry/sdk-metrics'
import type { Metrics, Sample } from '../../core/metrics.ts'

type Sdk = Pick<typeof import('@opentelemetry/sdk-metrics'), 'AggregationTemporality' | 'DataPointType'>
type Point<T> = { startTime: HrTime; endTime: HrTime; attributes: Attributes; value: T }
type Buckets = { buckets: { boundaries: number[]; counts: number[] }; sum: number; count: number }

const SERIES = /^([^{]+)(?:\{(.*)\})?$/s
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** `name{a="b"}` → its name and labels. */
export function seriesOf(text: string): { name: string; attributes: Record<string, string> } {
  const [, name = text, labels = ''] = SERIES.exec(text) ?? []
  const attributes: Record<string, string> = {}
  for (const [, label = '', value = ''] of labels.matchAll(LABEL)) {
    attributes[label] = value.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char))
  }
  return { name, attributes }
}

const now = (): HrTime => {
  const ms = Date.now()
  return [Math.floor(ms / 1000), (ms % 1000) * 1_000_000]
}

/** The registry of /metrics, as the SDK exports it. */
export function metricsProducer(
  metrics: Metrics,
  resource: unknown,
  sdk: Sdk,
  scope: { name: string; version: string },
): MetricProducer {
  const startTime = now()
  const metricOf = (sample: Sample): unknown => {
    const endTime = now()
    const descriptor = {
      name: sample.name,
      description: sample.help,
      unit: sample.name.endsWith('_seconds') ? 's' : '',
      valueType: 1,
      advice: {},
    }
    const aggregationTemporality = sdk.AggregationTemporality.CUMULATIVE
    if (sample.type === 'histogram') {
      const dataPoints = histogramPoints(sample, { startTime, endTime })
      return {
        descriptor: { ...descriptor, type: 'HISTOGRAM' },
        aggregationTemporality,
        dataPointType: sdk.DataPointType.HISTOGRAM,
        dataPoints,
      }
    }
    const dataPoints = sample.series.map(([series, value]) => ({
      startTime,
      endTime,
      attributes: seriesOf(series).attributes,
      value,
    }))
    return sample.type === 'counter'
      ? {
          descriptor: { ...descriptor, type: 'COUNTER' },
          aggregationTemporality,
          dataPointType: sdk.DataPointType.SUM,
          isMonotonic: true,
          dataPoints,
        }
      : {
          descriptor: { ...descriptor, type: 'OBSERVABLE_GAUGE' },
          aggregationTemporality,
          dataPointType: sdk.DataPointType.GAUGE,
          dataPoints,
        }
  }
  const collect = async () => ({
    resourceMetrics: { resource, scopeMetrics: [{ scope, metrics: metrics.samples().map(metricOf) }] },
    errors: [],
  })
  return { collect } as unknown as MetricProducer
}

/** Buckets of the exposition count everything below their bound; those of OTLP what is between two bounds. */
function histogramPoints(sample: Sample, times: { startTime: HrTime; endTime: HrTime }): Point<Buckets>[] {
  const points = new Map<string, Point<Buckets> & { below: number }>()
  for (const [series, value] of sample.series) {
    const { name, attributes } = seriesOf(series)
    const { le, ...labels } = attributes
    const key = JSON.stringify(labels)
    const point = points.get(key) ?? {
      ...times,
      attributes: labels,
      value: { buckets: { boundaries: [], counts: [] }, sum: 0, count: 0 },
      below: 0,
    }
    points.set(key, point)
    const { buckets } = point.value
    if (name.endsWith('_sum')) point.value.sum = value
    else if (name.endsWith('_count')) point.value.count = value
    else {
      buckets.counts.push(value - point.below)
      point.below = value
      if (le !== '+Inf') buckets.boundaries.push(Number(le))
    }
  }
  return [...points.values()].map(({ below: _, ...point }) => point)
}
