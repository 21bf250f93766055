import {
  Controls,
  type Edge,
  Handle,
  MarkerType,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  useNodesState,
} from '@xyflow/react'
import { useEffect, useMemo, useRef, useState } from 'react'
import { type Schema, type Table, tableName } from '../../api/schema.ts'
import { Link, tablePath } from '../../app/navigate.tsx'
import { theme } from '../../app/theme.ts'
import { visible } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { startWorker } from '../../parts/trusted.ts'
import { Button } from '../../parts/ui.tsx'
import { download } from '../table/rows/export.tsx'
import { shortType } from '../table/rows/values.ts'
import workerAddress from './layout-worker.ts?worker'
import { type Place, plainLayout } from './plain-layout.ts'
import { svgOf } from './svg.ts'

const WIDTH = 220
const PATIENCE_MS = 10_000
const MOST = 14
const heightOf = (table: Table): number => 30 + Math.min(table.columns.length, MOST + 1) * 20

type Entity = Node<{ table: Table; name: string; found: boolean }>

function EntityNode({ data: { table, name, found } }: NodeProps<Entity>) {
  const rest = table.columns.length - MOST
  return (
    <div className={found ? 'entity found' : 'entity'}>
      <Handle type="target" position={Position.Left} />
      <header>
        <Link to={tablePath(name)}>
          <span className="isolate">{visible(name)}</span>
        </Link>
      </header>
      <ul>
        {table.columns.slice(0, MOST).map((column) => (
          <li key={column.name}>
            <span className="isolate">{visible(column.name)}</span>
            {column.isPrimaryKey && <Icon name="key" size={11} />}
            <span className="type">{shortType(column.type)}</span>
          </li>
        ))}
        {rest > 0 && (
          <li>
            <span className="muted">{`and ${rest} more`}</span>
          </li>
        )}
      </ul>
      <Handle type="source" position={Position.Right} />
    </div>
  )
}

const nodeTypes = { entity: EntityNode }

export default function Diagram({ schema, find }: { schema: Schema; find: string }) {
  const [nodes, setNodes, onNodesChange] = useNodesState<Entity>([])
  const [isBusy, setBusy] = useState(true)
  const flow = useRef<ReactFlowInstance<Entity, Edge> | null>(null)
  const chosen = theme.use()
  const edges = useMemo<Edge[]>(
    () =>
      [...schema.tables].flatMap(([name, table]) =>
        (table.foreignKeys ?? []).flatMap((key) => {
          const to = tableName({ schema: key.referencedSchema, name: key.referencedTable }, schema.schemas[0])
          return schema.tables.has(to)
            ? [
                {
                  id: `${name} ${key.constraintName}`,
                  source: name,
                  target: to,
                  markerEnd: { type: MarkerType.ArrowClosed },
                  ariaLabel: `${name} refers to ${to}`,
                },
              ]
            : []
        }),
      ),
    [schema],
  )
  useEffect(() => {
    const worker = startWorker(workerAddress)
    setBusy(true)
    const tables = [...schema.tables]
    const places = new Map(tables.map(([name], index) => [name, index]))
    const show = (at: readonly Place[]): void => {
      clearTimeout(patience)
      setNodes(
        tables.map(([name, table], index) => ({
          id: name,
          type: 'entity',
          position: at[index] ?? { x: 0, y: 0 },
          width: WIDTH,
          height: heightOf(table),
          data: { table, name, found: false },
        })),
      )
      setBusy(false)
      setTimeout(() => flow.current?.fitView({ padding: 0.1 }), 50)
    }
    const boxes = tables.map(([, table]) => ({ width: WIDTH, height: heightOf(table) }))
    const lines = edges.map(({ source, target }) => ({
      from: places.get(source) ?? 0,
      to: places.get(target) ?? 0,
    }))
    // Long chains of references are more than the library's recursion holds, or than anybody waits for.
    const plain = (): void => {
      worker.terminate()
      show(plainLayout(boxes, lines))
    }
    const patience = setTimeout(plain, PATIENCE_MS)
    worker.onerror = (event) => {
      event.preventDefault()
      plain()
    }
    worker.onmessage = ({ data }: MessageEvent<Place[]>) => show(data)
    worker.postMessage({ boxes, lines })
    return () => {
      clearTimeout(patience)
      worker.terminate()
    }
  }, [schema, edges, setNodes])
  useEffect(() => {
    const word = find.toLowerCase()
    const fits = (name: string): boolean => word !== '' && name.toLowerCase().includes(word)
    setNodes((all) =>
      all.map((node) =>
        node.data.found === fits(node.id) ? node : { ...node, data: { ...node.data, found: fits(node.id) } },
      ),
    )
    const [first] = [...schema.tables.keys()].filter(fits)
    if (first) void flow.current?.fitView({ nodes: [{ id: first }], maxZoom: 1 })
  }, [find, schema, setNodes])
  return (
    <div className="diagram" role="region" aria-label="Diagram of tables and relations">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        onNodesChange={onNodesChange}
        onInit={(instance) => {
          flow.current = instance
        }}
        colorMode={chosen === 'system' ? 'system' : chosen}
        minZoom={0.05}
        fitView
        nodesConnectable={false}
        onlyRenderVisibleElements
      >
        <Controls showInteractive={false} />
        {nodes.length > 12 && <MiniMap pannable zoomable ariaLabel="Small map of the diagram" />}
      </ReactFlow>
      <div className="diagram-bar">
        {isBusy && <span className="muted">Laying out…</span>}
        <Button
          look="small"
          icon="download"
          onClick={() => download(new Blob([svgOf(nodes, edges)], { type: 'image/svg+xml' }), 'schema.svg')}
        >
          SVG
        </Button>
      </div>
    </div>
  )
}
