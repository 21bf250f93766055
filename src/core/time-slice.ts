const SLICE_MS = 10

/** Long work calls `yieldIfOver` between its steps, so that other requests are served meanwhile. */
export class TimeSlice {
  readonly #sliceMs: number
  #since = performance.now()

  constructor(sliceMs: number = SLICE_MS) {
    this.#sliceMs = sliceMs
  }

  async yieldIfOver(): Promise<void> {
    if (performance.now() - this.#since < this.#sliceMs) return
    await new Promise((resolve) => setImmediate(resolve))
    this.#since = performance.now()
  }
}

/** JSON.stringify that yields between the items of arrays, which may be very long. */
export async function stringifyInSlices(value: unknown, slice: TimeSlice): Promise<string> {
  if (Array.isArray(value)) {
    const items: string[] = []
    for (const item of value) {
      await slice.yieldIfOver()
      items.push(JSON.stringify(item) ?? 'null')
    }
    return `[${items.join(',')}]`
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const members: string[] = []
  for (const [name, member] of Object.entries(value)) {
    members.push(`${JSON.stringify(name)}:${await stringifyInSlices(member, slice)}`)
  }
  return `{${members.join(',')}}`
}
