import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { freePort } from '../kit/free-port.ts'
import { type SpawnedServer, spawnServer } from '../kit/kit.ts'
import { hashOf, sendLarge } from '../kit/large-upload.ts'
import { ROUNDS } from './rounds.ts'

const MEGABYTE = 1024 * 1024

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/**
 * Kills a server again and again while files are replaced and made. After every kill: what is listed is whole, what was
 * acknowledged is there, and what was there before stays until something whole has taken its place. Resolves to
 * a server that lives.
 */
export async function killDuringUploads(
  config: Record<string, unknown>,
  { megabytes }: { megabytes: number },
): Promise<SpawnedServer> {
  const port = await freePort()
  let server = await spawnServer({ config, port })
  const whole = new Map<string, Set<string>>()
  const acknowledged = new Map<string, string>()
  const send = async (name: string, isSlow: boolean) => {
    const pieces = Array.from({ length: megabytes }, () => randomBytes(MEGABYTE))
    async function* slowly() {
      for (const piece of pieces) {
        yield piece
        if (isSlow) await pause(20 + Math.random() * 60)
      }
    }
    const sent = await sendLarge(`${server.url}/api/storage/pub`, name, { pieces: slowly() })
    whole.set(name, (whole.get(name) ?? new Set()).add(sent.sha256))
    if (sent.status === 201) acknowledged.set(name, sent.sha256)
    return sent
  }
  for (let i = 0; i < 3; i++) assert.equal((await send(`f${i}`, false)).status, 201)

  for (let round = 0; round < ROUNDS; round++) {
    const before = new Map(acknowledged)
    const underWay = ['f0', 'f1', 'f2', `new${round}`].map((name) => send(name, true))
    await pause(50 + Math.random() * 60 * megabytes)
    await server.kill('SIGKILL')
    await Promise.all(underWay)
    server = await spawnServer({ config, port, on: server })
    const { body } = await server.call('GET /api/storage/pub')
    const listed = body.items as { name: string; size: number }[]
    for (const { name, size } of listed) {
      const { status, sha256, bytes } = await hashOf(`${server.url}/api/storage/pub/${name}`)
      assert.deepEqual([status, bytes], [200, size], `${name} is listed and not whole`)
      assert.ok(whole.get(name)?.has(sha256), `${name} is none of what was sent`)
      const isAcknowledgedNow = acknowledged.get(name) !== before.get(name)
      if (isAcknowledgedNow) assert.equal(sha256, acknowledged.get(name), `${name} was acknowledged and is lost`)
    }
    for (const name of acknowledged.keys())
      assert.ok(
        listed.some((one) => one.name === name),
        `${name} is lost`,
      )
  }
  return server
}
