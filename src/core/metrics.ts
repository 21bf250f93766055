import { getOrCreate } from './get-or-create.ts'

/** Label values in the order of the metric's label names. */
type LabelValues = readonly string[]

export type Counter = { add(labels: LabelValues, by?: number): void }
export type Histogram = { record(labels: LabelValues, value: number): void }
/** One number, or one per set of label values. Gauges are read when the metrics are scraped. */
export type GaugeValue = number | readonly { labels: LabelValues; value: number }[]

/** How values of several processes are merged: most are added; a figure of the whole service is the same in each. */
export type MergeRule = 'sum' | 'max'

/** A metric of one process; each series is its name with labels, as in the exposition, and its value. */
export type Sample = { name: string; type: string; help: string; merge: MergeRule; series: [string, number][] }

/** The registry in which features declare their metrics. */
export interface Metrics {
  counter(name: string, help: string, labels: readonly string[]): Counter
  histogram(name: string, help: string, labels: readonly string[], bounds: readonly number[]): Histogram
  gauge(name: string, help: string, labels: readonly string[], read: () => GaugeValue, merge?: MergeRule): void
  samples(): Sample[]
}

type Metric = { type: string; help: string; merge?: MergeRule; series: () => [string, number][] }

/** Bounds the memory of a label with too many values; routes and states stay far below. */
const MAX_SERIES = 10_000

export function createMetrics(): Metrics {
  const metrics = new Map<string, Metric>()
  const add = (name: string, metric: Metric) => {
    if (metrics.has(name)) throw new Error(`duplicate metric: ${name}`)
    metrics.set(name, metric)
  }
  return {
    counter(name, help, labels) {
      const series = createSeries(() => ({ value: 0 }))
      add(name, {
        type: 'counter',
        help,
        series: () => series.all().map(([values, { value }]) => [named(name, labels, values), value]),
      })
      return {
        add(values, by = 1) {
          series.at(values).value += by
        },
      }
    },
    histogram(name, help, labels, bounds) {
      const series = createSeries(() => ({ buckets: bounds.map(() => 0), count: 0, sum: 0 }))
      add(name, {
        type: 'histogram',
        help,
        series: () =>
          series.all().flatMap(([values, { buckets, count, sum }]): [string, number][] => {
            let below = 0
            const withLe = [...labels, 'le']
            return [
              ...bounds.map((bound, i): [string, number] => {
                below += buckets[i] ?? 0
                return [named(`${name}_bucket`, withLe, [...values, String(bound)]), below]
              }),
              [named(`${name}_bucket`, withLe, [...values, '+Inf']), count],
              [named(`${name}_sum`, labels, values), sum],
              [named(`${name}_count`, labels, values), count],
            ]
          }),
      })
      return {
        record(values, value) {
          const seen = series.at(values)
          seen.count++
          seen.sum += value
          let i = 0
          while (i < bounds.length && value > (bounds[i] ?? 0)) i++
          if (i < bounds.length) seen.buckets[i] = (seen.buckets[i] ?? 0) + 1
        },
      }
    },
    gauge(name, help, labels, read, merge = 'sum') {
      const series = (): [string, number][] => {
        const reading = read()
        if (typeof reading === 'number') return [[name, reading]]
        return reading.map(({ labels: values, value }) => [named(name, labels, values), value])
      }
      add(name, { type: 'gauge', help, merge, series })
    },
    samples: () =>
      [...metrics].map(([name, { merge = 'sum', series, ...rest }]) => ({ name, ...rest, merge, series: series() })),
  }
}

type Merged = ReadonlyMap<string, { sample: Sample; values: ReadonlyMap<string, number> }>

/** The metrics of all processes as one, by name; the values by series. */
export function mergedSamples(processes: readonly (readonly Sample[])[]): Merged {
  const merged = new Map<string, { sample: Sample; values: Map<string, number> }>()
  for (const sample of processes.flat()) {
    const { values } = getOrCreate(merged, sample.name, () => ({ sample, values: new Map() }))
    for (const [series, value] of sample.series) {
      const before = values.get(series)
      values.set(
        series,
        before === undefined ? value : sample.merge === 'max' ? Math.max(before, value) : before + value,
      )
    }
  }
  return merged
}

/** The merged metrics of all processes in Prometheus text exposition format 0.0.4. */
export function exposition(processes: readonly (readonly Sample[])[]): string {
  let text = ''
  for (const [name, { sample, values }] of mergedSamples(processes)) {
    text += `# HELP ${name} ${sample.help}\n# TYPE ${name} ${sample.type}\n`
    for (const [series, value] of values) text += `${series} ${value}\n`
  }
  return text
}

/** A tree by label value, because joining labels to one key on every request would cost more than counting. */
type Branch<T> = { next: Map<string, Branch<T>>; item: T | undefined }

function createSeries<T>(make: () => T) {
  const root: Branch<T> = { next: new Map(), item: undefined }
  const all: [LabelValues, T][] = []
  const overflow = make()
  return {
    at(values: LabelValues): T {
      let branch = root
      for (const value of values) {
        const next = branch.next.get(value)
        if (next === undefined && all.length >= MAX_SERIES) return overflow
        branch = next ?? grow(branch, value)
      }
      if (branch.item !== undefined) return branch.item
      branch.item = make()
      all.push([values, branch.item])
      return branch.item
    },
    all: () => all,
  }
}

function grow<T>(branch: Branch<T>, value: string): Branch<T> {
  const made: Branch<T> = { next: new Map(), item: undefined }
  branch.next.set(value, made)
  return made
}

function named(name: string, labels: readonly string[], values: LabelValues): string {
  const pairs = labels.map((label, i) => `${label}="${escaped(values[i] ?? '')}"`)
  return pairs.length > 0 ? `${name}{${pairs.join(',')}}` : name
}

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
