import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { Scale } from './scale.ts'

const OVERSCAN = 6

type Given = {
  box: RefObject<HTMLDivElement | null>
  count: number
  rowHeight: number
  headHeight: number
  /** Rows that stay in the page wherever they are. */
  kept: readonly number[]
}

type Place = { scrollTop: number; line: number }

/**
 * Rows of one height, of which only those in view are in the page: the millionth costs what the first does, also where all of
 * them are longer than an element can be.
 */
export function useScaledRows({ box, count, rowHeight, headHeight, kept }: Given) {
  const [view, setView] = useState(600)
  const [place, setPlace] = useState<Place>({ scrollTop: 0, line: 0 })
  const scale = new Scale(count * rowHeight, view)
  const now = useRef({ scale, place })
  now.current = { scale, place }

  useLayoutEffect(() => {
    const element = box.current
    if (!element) return
    const measure = (): void => setView(Math.max(rowHeight, element.clientHeight - headHeight))
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [box, rowHeight, headHeight])

  function scrollTo(line: number): void {
    const element = box.current
    if (!element) return
    const { scale: current } = now.current
    const at = Math.max(0, Math.min(current.lineEnd, line))
    element.scrollTop = current.scrollFor(at)
    const { scrollTop } = element
    setPlace({ scrollTop, line: current.isScaled ? at : scrollTop })
  }

  useEffect(() => {
    const element = box.current
    if (!element) return
    const onScroll = (): void => {
      const { scrollTop } = element
      const { scale: current, place: known } = now.current
      // One pixel of the scrollbar is many of the line: a place that is known exactly stays so.
      const isKnown = Math.abs(scrollTop - current.scrollFor(known.line)) < 1
      const line = current.isScaled && isKnown ? known.line : current.lineAt(scrollTop)
      if (line === known.line && scrollTop === known.scrollTop) return
      // Before it is painted, or the rows that come into view are blank for a moment.
      flushSync(() => setPlace({ scrollTop, line }))
    }
    // A wheel moves by its own pixels, not by a multiple of them.
    const onWheel = (event: WheelEvent): void => {
      const { scale: current, place: known } = now.current
      if (!current.isScaled || event.ctrlKey || event.deltaY === 0) return
      event.preventDefault()
      scrollTo(known.line + event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? rowHeight : 1))
    }
    element.addEventListener('scroll', onScroll, { passive: true })
    element.addEventListener('wheel', onWheel, { passive: false })
    return () => {
      element.removeEventListener('scroll', onScroll)
      element.removeEventListener('wheel', onWheel)
    }
  }, [box, rowHeight])

  const line = Math.min(place.line, scale.lineEnd)
  const first = Math.max(0, Math.floor(line / rowHeight) - OVERSCAN)
  const last = Math.min(count - 1, Math.ceil((line + view) / rowHeight) + OVERSCAN)
  const inView = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index)
  const others = kept.filter((index) => index >= 0 && index < count && (index < first || index > last))
  // The element is shorter than the line, so rows are moved to where it is scrolled.
  const shift = scale.isScaled ? place.scrollTop - line : 0
  return {
    first,
    last,
    indices: [...new Set([...others, ...inView])].sort((a, b) => a - b),
    height: scale.height,
    topOf: (index: number): number => index * rowHeight + shift,
    scrollTo,
    /** Only as far as needed. */
    scrollToIndex(index: number): void {
      const { line: from } = now.current.place
      const top = index * rowHeight
      if (top < from) scrollTo(top)
      else if (top + rowHeight > from + view) scrollTo(top + rowHeight - view)
    },
  }
}
