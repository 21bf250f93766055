import dagre from '@dagrejs/dagre'

import { type Box, GAP, type Line, plainLayout } from './plain-layout.ts'

const MARGIN = 20

/** Lines are between positions in the list of boxes: names such as `__proto__` are no keys for the library. */
type Asked = { boxes: Box[]; lines: Line[] }

/** Where the tables of the diagram stand; off the page's thread, because hundreds of them take seconds. */
addEventListener('message', ({ data }: MessageEvent<Asked>) => {
  const related = new Set(data.lines.flatMap(({ from, to }) => [from, to]))
  const graph = new dagre.graphlib.Graph({ multigraph: true })
  graph.setGraph({ rankdir: 'LR', nodesep: 36, ranksep: 90, marginx: MARGIN, marginy: MARGIN })
  graph.setDefaultEdgeLabel(() => ({}))
  data.boxes.forEach(({ width, height }, index) => {
    if (related.has(index)) graph.setNode(String(index), { width, height })
  })
  data.lines.forEach(({ from, to }, index) => {
    graph.setEdge(String(from), String(to), {}, String(index))
  })
  dagre.layout(graph)
  // Those without relations would stand in one long column: they have a block of their own below.
  const alone = data.boxes.map((_, index) => index).filter((index) => !related.has(index))
  const block = plainLayout(
    alone.map((index) => data.boxes[index] as Box),
    [],
  )
  const below = related.size === 0 ? 0 : (graph.graph().height ?? 0) + GAP
  postMessage(
    data.boxes.map(({ width, height }, index) => {
      const place = block[alone.indexOf(index)]
      if (place) return { x: place.x + MARGIN, y: place.y + below }
      const { x, y } = graph.node(String(index))
      return { x: x - width / 2, y: y - height / 2 }
    }),
  )
})
