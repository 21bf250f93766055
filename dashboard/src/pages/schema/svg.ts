import type { Table } from '../../api/schema.ts'

type Placed = {
  id: string
  position: { x: number; y: number }
  width?: number
  height?: number
  data: { table: Table }
}
type Line = { source: string; target: string }

const escaped = (text: string): string => text.replace(/[<>&"']/g, (letter) => `&#${letter.charCodeAt(0)};`)

/** The diagram as it stands, as a file. */
export function svgOf(nodes: readonly Placed[], edges: readonly Line[]): string {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const right = Math.max(200, ...nodes.map(({ position, width = 220 }) => position.x + width)) + 20
  const bottom = Math.max(200, ...nodes.map(({ position, height = 100 }) => position.y + height)) + 20
  const left = Math.min(0, ...nodes.map(({ position }) => position.x)) - 20
  const top = Math.min(0, ...nodes.map(({ position }) => position.y)) - 20
  const lines = edges.flatMap(({ source, target }) => {
    const [from, to] = [byId.get(source), byId.get(target)]
    if (!from || !to) return []
    const [x1, y1] = [from.position.x + (from.width ?? 220), from.position.y + (from.height ?? 100) / 2]
    const [x2, y2] = [to.position.x, to.position.y + (to.height ?? 100) / 2]
    return [
      `<path d="M${x1} ${y1} C ${x1 + 60} ${y1}, ${x2 - 60} ${y2}, ${x2} ${y2}" fill="none" stroke="#777" marker-end="url(#a)"/>`,
    ]
  })
  const boxes = nodes.map(({ id, position: { x, y }, width = 220, height = 100, data }) => {
    const columns = data.table.columns
      .slice(0, Math.floor((height - 30) / 20))
      .map(
        (column, index) =>
          `<text x="${x + 9}" y="${y + 44 + index * 20}">${escaped(column.name)}</text><text x="${x + width - 9}" y="${y + 44 + index * 20}" text-anchor="end" fill="#777">${escaped(column.type)}</text>`,
      )
    return `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="8" fill="#fff" stroke="#999"/><text x="${x + 9}" y="${y + 20}" font-weight="bold">${escaped(id)}</text>${columns.join('')}`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${left} ${top} ${right - left} ${bottom - top}" font-family="sans-serif" font-size="12"><defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>${lines.join('')}${boxes.join('')}</svg>`
}
