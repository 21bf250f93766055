import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { loadConfig } from '../../src/config/config.ts'

const dockerfile = readFileSync('Dockerfile', 'utf8')
const compose = readFileSync('compose.yaml', 'utf8')
const pack = JSON.parse(readFileSync('package.json', 'utf8'))

test('the Dockerfile copies what exists, runs scripts that exist, and starts what `svc` is', () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names = '']) => names.split(' '))
  assert.ok(copied.length >= 6)
  for (const name of copied.filter((one) => !one.includes('*'))) assert.ok(existsSync(name), name)
  for (const [, script = ''] of dockerfile.matchAll(/npm run (\w+)/g)) assert.ok(pack.scripts[script], script)
  assert.ok(dockerfile.includes(`CMD ["node", "${pack.bin.svc}", "start"]`))
  for (const needed of pack.files) assert.ok(needed === 'dist' || copied.includes(needed), needed)
  const [, major = '0'] = /FROM node:(\d+)/.exec(dockerfile) ?? []
  assert.ok(Number(major) >= Number(/\d+/.exec(pack.engines.node)?.[0]))
  assert.match(dockerfile, /^USER node$/m)
})

test('every SVC_ variable of the Dockerfile and the compose file is a setting the server takes', () => {
  const pairs = [...dockerfile.matchAll(/\b(SVC_\w+)=(\S+)/g), ...compose.matchAll(/^\s+(SVC_\w+): (\S+)$/gm)].map(
    ([, name = '', value = '']) => [name, value],
  )
  assert.ok(pairs.length >= 5)
  const { warnings } = loadConfig({ env: Object.fromEntries(pairs) })
  assert.deepEqual(warnings, [])
})

test('the compose file publishes the port that the server listens on, and waits for its database', () => {
  const { config } = loadConfig({})
  assert.ok(compose.includes(`"${config.server.port}:${config.server.port}"`))
  assert.ok(dockerfile.includes(`EXPOSE ${config.server.port}`))
  assert.match(compose, /condition: service_healthy/)
  const [, user, password, database] = /postgres:\/\/(\w+):([\w-]+)@postgres\/(\w+)/.exec(compose) ?? []
  for (const [name, value] of [
    ['USER', user],
    ['PASSWORD', password],
    ['DB', database],
  ]) {
    assert.ok(compose.includes(`POSTGRES_${name}: ${value}`), name)
  }
})
