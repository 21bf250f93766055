/** Label values in the order of the metric's label names. */
type LabelValues = readonly string[]

export type Counter = { add(labels: LabelValues, by?: number): void }
export type Histogram = { record(labels: LabelValues, value: number): void }
/** A gauge is read when somebody asks; one number, or one for each set of label values. */
export type Reading = number | readonly { labels: LabelValues; value: number }[]

/** Where every feature announces what it counts. */
export interface Metrics {
  counter(name: string, help: string, labels: readonly string[]): Counter
  histogram(name: string, help: string, labels: readonly string[], bounds: readonly number[]): Histogram
  gauge(name: string, help: string, labels: readonly string[], read: () => Reading): void
  /** Prometheus text exposition format 0.0.4. */
  text(): string
}

/** A metric prints itself; the lines come after its HELP and TYPE. */
type Printed = { type: string; help: string; lines: () => string[] }

/** A runaway label would otherwise grow without bound; routes and states stay far below. */
const MAX_SERIES = 10_000

export function createMetrics(): Metrics {
  const metrics = new Map<string, Printed>()
  const add = (name: string, printed: Printed) => {
    if (metrics.has(name)) throw new Error(`duplicate metric: ${name}`)
    metrics.set(name, printed)
  }
  return {
    counter(name, help, labels) {
      const series = createSeries(() => ({ value: 0 }))
      add(name, {
        type: 'counter',
        help,
        lines: () => series.all().map(([values, { value }]) => line(name, labels, values, value)),
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
        lines: () =>
          series.all().flatMap(([values, { buckets, count, sum }]) => {
            let below = 0
            const withLe = [...labels, 'le']
            return [
              ...bounds.map((bound, i) => {
                below += buckets[i] ?? 0
                return line(`${name}_bucket`, withLe, [...values, String(bound)], below)
              }),
              line(`${name}_bucket`, withLe, [...values, '+Inf'], count),
              line(`${name}_sum`, labels, values, sum),
              line(`${name}_count`, labels, values, count),
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
    gauge(name, help, labels, read) {
      const lines = () => {
        const reading = read()
        if (typeof reading === 'number') return [line(name, [], [], reading)]
        return reading.map(({ labels: values, value }) => line(name, labels, values, value))
      }
      add(name, { type: 'gauge', help, lines })
    },
    text() {
      let text = ''
      for (const [name, { type, help, lines }] of metrics) {
        text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
        for (const one of lines()) text += `${one}\n`
      }
      return text
    },
  }
}

/** A tree by label value: every request comes by, and joining labels to one key would cost more than counting. */
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

function line(name: string, labels: readonly string[], values: LabelValues, value: number): string {
  const pairs = labels.map((label, i) => `${label}="${escaped(values[i] ?? '')}"`)
  return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`
}

const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
