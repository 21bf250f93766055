const SLICE_MS = 10

/** Long work asks between its steps whether others have waited long enough, and lets them go first. */
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

/** JSON.stringify of a value whose arrays may be very long, member by member. */
export async function stringifyInSlices(value: unknown, breaks: TimeSlice): Promise<string> {
  if (Array.isArray(value)) {
    const items: string[] = []
    for (const item of value) {
      await breaks.yieldIfOver()
      items.push(JSON.stringify(item) ?? 'null')
    }
    return `[${items.join(',')}]`
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const members: string[] = []
  for (const [name, member] of Object.entries(value)) {
    members.push(`${JSON.stringify(name)}:${await stringifyInSlices(member, breaks)}`)
  }
  return `{${members.join(',')}}`
}
