import dagre from '@dagrejs/dagre'

type Box = { id: string; width: number; height: number }
type Asked = { boxes: Box[]; lines: { from: string; to: string }[] }

/** Where the tables of the diagram stand; off the page's thread, because hundreds of them take seconds. */
onmessage = ({ data }: MessageEvent<Asked>) => {
  const graph = new dagre.graphlib.Graph({ multigraph: true })
  graph.setGraph({ rankdir: 'LR', nodesep: 36, ranksep: 90, marginx: 20, marginy: 20 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const { id, width, height } of data.boxes) graph.setNode(id, { width, height })
  data.lines.forEach(({ from, to }, index) => {
    graph.setEdge(from, to, {}, String(index))
  })
  dagre.layout(graph)
  postMessage(
    data.boxes.map(({ id, width, height }) => {
      const { x, y } = graph.node(id)
      return { id, x: x - width / 2, y: y - height / 2 }
    }),
  )
}
