import dagre from '@dagrejs/dagre'

import type { Box, Line } from './plain-layout.ts'

/** Lines are between positions in the list of boxes: names such as `__proto__` are no keys for the library. */
type Asked = { boxes: Box[]; lines: Line[] }

/** Where the tables of the diagram stand; off the page's thread, because hundreds of them take seconds. */
addEventListener('message', ({ data }: MessageEvent<Asked>) => {
  const graph = new dagre.graphlib.Graph({ multigraph: true })
  graph.setGraph({ rankdir: 'LR', nodesep: 36, ranksep: 90, marginx: 20, marginy: 20 })
  graph.setDefaultEdgeLabel(() => ({}))
  data.boxes.forEach(({ width, height }, index) => {
    graph.setNode(String(index), { width, height })
  })
  data.lines.forEach(({ from, to }, index) => {
    graph.setEdge(String(from), String(to), {}, String(index))
  })
  dagre.layout(graph)
  postMessage(
    data.boxes.map(({ width, height }, index) => {
      const { x, y } = graph.node(String(index))
      return { x: x - width / 2, y: y - height / 2 }
    }),
  )
})
