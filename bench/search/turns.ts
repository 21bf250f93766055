import { load } from '../kit/processes.ts'
import type { Asked } from '../kit/raw.ts'
import { median } from '../kit/report.ts'
import { hasWrk, wrk } from '../kit/wrk.ts'
import { AT_ONCE, type SearchStage } from './stage.ts'

const quick = process.argv.includes('--quick')
const ROUNDS = quick ? 3 : 5

/** Requests answered in these seconds, of many that are always under way. */
export type Side = (seconds: number) => Promise<number>

export const overHttp =
  ({ server }: SearchStage, requests: readonly Asked[]): Side =>
  async (seconds) => {
    const generate = hasWrk() ? wrk : load
    const { count, statuses } = await generate({ port: server.port, requests, connections: AT_ONCE, seconds })
    const failed = Object.keys(statuses).filter((status) => !status.startsWith('2'))
    if (failed.length > 0) throw new Error(`${requests[0]?.path} answered ${failed.join(', ')}`)
    return count
  }

/** The same from the driver, on as many connections. */
export const byHand =
  ({ pool }: SearchStage, text: string, values: readonly string[]): Side =>
  async (seconds) => {
    const deadline = performance.now() + seconds * 1000
    let asked = 0
    let answered = 0
    const worker = async (): Promise<void> => {
      while (performance.now() < deadline) {
        await pool.query({ name: text.slice(0, 60), text, values: [values[asked++ % values.length]] })
        if (performance.now() < deadline) answered++
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
    return answered
  }

/** `bars` holds what the time of a request may be, as a multiple of the other side's. */
export async function inTurns<Name extends string>(
  scenario: string,
  sides: Readonly<Record<Name, Side>>,
  bars: readonly (readonly [Name, than: Name, bar: number])[],
  seconds: number,
): Promise<void> {
  const names = Object.keys(sides) as Name[]
  const rounds: Record<Name, number>[] = []
  for (const name of names) await sides[name](Math.min(seconds, 3)) // plans and caches
  for (let round = 0; round < ROUNDS; round++) {
    const took = {} as Record<Name, number>
    for (const name of names) took[name] = (seconds * 1000) / (await sides[name](seconds))
    rounds.push(took)
  }
  console.log(`\n${scenario}, ${AT_ONCE} at once`)
  for (const name of names) {
    console.log(`  ${name.padEnd(24)}${median(rounds.map((took) => took[name])).toFixed(2)} ms a request`)
  }
  for (const [name, than, bar] of bars) {
    const ratio = median(rounds.map((took) => took[name] / took[than]))
    console.log(
      `  ${`${name} / ${than}`.padEnd(32)}${ratio.toFixed(2)} (bar ${bar.toFixed(2)}) ${ratio <= bar ? 'ok' : 'ABOVE'}`,
    )
  }
}
