import { useEffect, useEffectEvent, useRef } from 'react'
import uPlot from 'uplot'
import { theme } from '../../app/theme.ts'

export type ChartProps = {
  label: string
  kind: 'line' | 'bars'
  /** Along the axis: seconds since 1970, or names. */
  times?: readonly number[]
  names?: readonly string[]
  series: readonly { name: string; values: readonly (number | null)[]; colour?: string }[]
  height: number
  unit?: (value: number) => string
}

/** A colour of the page as the canvas takes it. */
function colourOf(element: HTMLElement, value: string): string {
  element.style.color = value
  return getComputedStyle(element).color
}

const COLOURS = ['var(--accent)', 'var(--warn)', 'var(--danger)', 'var(--info)']

export default function Plot(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const chosen = theme.use()
  const { height, series, times, names } = props
  const data = (): uPlot.AlignedData =>
    [
      times ?? names?.map((_, index) => index) ?? [],
      ...series.map(({ values }) => values),
    ] as unknown as uPlot.AlignedData
  const make = useEffectEvent((element: HTMLElement): uPlot => {
    const points = names?.length ?? 0
    const text = colourOf(element, 'var(--muted)')
    const grid = colourOf(element, 'var(--line)')
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid } }
    const label = names
    const bars = uPlot.paths.bars?.({ size: [0.7, 60] })
    const plotted = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height,
        legend: { show: series.length > 1, live: false },
        cursor: { drag: { x: false, y: false } },
        scales: {
          x: {
            time: times !== undefined,
            range: names
              ? (): [number, number] => [-0.6, points - 0.4]
              : // Around one point alone uPlot has made years before it asks.
                ({ data: [x] }, from, to): [number, number] =>
                  times && (x.length < 2 || to - from < 10) ? [(x.at(-1) ?? to) - 10, x.at(-1) ?? to] : [from, to],
          },
          y: { range: (_, low, high) => [Math.min(0, low), high <= 0 ? 1 : high * 1.1] },
        },
        axes: [
          label
            ? {
                ...axis,
                splits: (_, __, from, to) => {
                  const step = Math.max(1, Math.ceil((to - from) / Math.max(2, element.clientWidth / 110)))
                  return Array.from(
                    { length: Math.floor((to - from) / step) + 1 },
                    (_v, index) => Math.ceil(from) + index * step,
                  )
                },
                values: (_, splits) => splits.map((at) => (label[at] ?? '').slice(0, 14)),
              }
            : axis,
          { ...axis, size: 62, values: (_, splits) => splits.map((value) => props.unit?.(value) ?? String(value)) },
        ],
        series: [
          {},
          ...series.map(({ name, colour }, index) => {
            const stroke = colourOf(element, colour ?? COLOURS[index % COLOURS.length] ?? 'currentColor')
            const soft = stroke.replace('rgb(', 'rgba(').replace(')', ', 0.18)')
            return {
              label: name,
              stroke,
              width: 2,
              ...(props.kind === 'bars' && bars
                ? { paths: bars, fill: stroke }
                : { fill: index === 0 ? soft : 'transparent' }),
              points: { show: false },
            }
          }),
        ],
      },
      data(),
      element,
    )
    element.style.color = ''
    return plotted
  })
  const shape = JSON.stringify([props.kind, height, series.map(({ name }) => name), times !== undefined, names, chosen])
  useEffect(() => {
    const element = box.current
    if (!element) return
    plot.current = make(element)
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(200, element.clientWidth), height }),
    )
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [shape])
  const update = useEffectEvent(() => plot.current?.setData(data()))
  useEffect(() => update(), [series, times])
  return <div ref={box} role="img" aria-label={props.label} />
}
