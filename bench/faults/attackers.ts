/**
 * Everything that is known to stop a service, from one process. Attacks wait more than they work: on a machine that also
 * runs the servers and PostgreSQL, burning the processor would measure the machine. Standard input: a JSON setup. Prints how
 * often each status was answered.
 */
import { setMaxListeners } from 'node:events'
import { endConnections, statuses } from '../../test/abuse/attackers.ts'
import { firstWave } from './first-wave.ts'
import { secondWave } from './second-wave.ts'

export type AttackSetup = { ports: number[]; token: string; seconds: number }

let input = ''
for await (const chunk of process.stdin) input += chunk
const { ports, token, seconds } = JSON.parse(input) as AttackSetup

const stop = AbortSignal.timeout(seconds * 1000)
setMaxListeners(0, stop) // each attack listens
const storm = { ...firstWave(token), ...secondWave(token) }
const only = process.env['ONLY']?.split(',')
const chosen = Object.entries(storm).filter(([name]) => only?.includes(name) ?? true)
await Promise.all(chosen.flatMap(([, attack]) => ports.map((port) => attack({ port, stop }))))
endConnections()
console.log(JSON.stringify(Object.fromEntries([...statuses].sort(([a], [b]) => a - b))))
process.exit()
