import type { Talker } from './web-socket.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into messages freely
type Message = any

type Change = { key: unknown; at?: number; row?: object; gone?: true }

/** What a client holds: keys are those of the rows, or of what a test says they are. */
export class LiveRows {
  items: object[] = []
  position = ''
  readonly #keyOf: (row: Message) => unknown

  constructor(keyOf: (row: Message) => unknown = ({ id }) => id) {
    this.#keyOf = keyOf
  }

  /** Of a `rows` or `diff`, as the interface says: take the row out, then put it in. */
  apply({ items, changes, position }: { items?: object[]; changes?: Change[]; position: string }): void {
    this.position = position
    if (items) this.items = items
    for (const { key, at, row } of changes ?? []) {
      this.items = this.items.filter((one) => JSON.stringify(this.#keyOf(one)) !== JSON.stringify(key))
      if (at !== undefined && row) this.items = [...this.items.slice(0, at), row, ...this.items.slice(at)]
    }
  }
}

/** The live list with this number, from everything that was heard so far. */
export function liveRows(talker: Talker, live: number, keyOf?: (row: Message) => unknown): LiveRows {
  const rows = new LiveRows(keyOf)
  for (const message of talker.heard) {
    if (message.live === live && (message.type === 'rows' || message.type === 'diff')) rows.apply(message)
  }
  return rows
}
