import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jwtVerify } from 'jose'

/** What a service is told to do with a message: answer, `stall`, or `break` the connection. */
export type Behaviour = { status: number; body?: object; headers?: Record<string, string> } | 'stall' | 'break'

// biome-ignore lint/suspicious/noExplicitAny: tests look into messages freely
export type Heard = { token: string; headers: IncomingHttpHeaders; body: any }

const listen = async (server: Server | Http2Server): Promise<string> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
const folder = mkdtempSync(join(tmpdir(), 'svc-push-'))
const pem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString()

/** Google's two services, which believe only what is signed as their documentation says. */
export async function startFcm() {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const heard: Heard[] = []
  const sockets = new Set<unknown>()
  const service = {
    url: '',
    credentialsFile: join(folder, 'fcm.json'),
    privatePem: pem(privateKey),
    heard,
    tokensSold: 0,
    connections: () => sockets.size,
    /** The access token that is good now; changing it is what Google's expiry is to us. */
    accessToken: 'access-1',
    /** Instead of selling a token. */
    refuseToken: undefined as Behaviour | undefined,
    answer: (_heard: Heard): Behaviour => ({ status: 200, body: { name: `projects/demo/messages/${heard.length}` } }),
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
  const server = createServer(async (request, response) => {
    sockets.add(request.socket)
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    const reply = (status: number, body: object, headers: Record<string, string> = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
    const behave = (behaviour: Behaviour) => {
      if (behaviour === 'break') return request.socket.destroy()
      if (behaviour === 'stall') return undefined
      return reply(behaviour.status, behaviour.body ?? {}, behaviour.headers)
    }
    if (request.url === '/token') {
      if (service.refuseToken) return behave(service.refuseToken)
      const form = new URLSearchParams(text)
      try {
        if (form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer') throw new Error('grant_type')
        const { payload } = await jwtVerify(form.get('assertion') ?? '', publicKey, {
          algorithms: ['RS256'],
          issuer: 'push@demo.iam.gserviceaccount.com',
          audience: `${service.url}/token`,
          maxTokenAge: 60,
        })
        if (payload['scope'] !== 'https://www.googleapis.com/auth/firebase.messaging') throw new Error('scope')
        service.tokensSold++
        return reply(200, { access_token: service.accessToken, expires_in: 3600, token_type: 'Bearer' })
      } catch (error) {
        return reply(400, { error: 'invalid_grant', error_description: String(error) })
      }
    }
    if (request.url !== '/v1/projects/demo/messages:send') return reply(404, {})
    if (request.headers.authorization !== `Bearer ${service.accessToken}`) {
      return reply(401, { error: { code: 401, message: 'expired', status: 'UNAUTHENTICATED' } })
    }
    const { message } = JSON.parse(text)
    const one = { token: message.token, headers: request.headers, body: message }
    heard.push(one)
    return behave(service.answer(one))
  })
  service.url = await listen(server)
  writeFileSync(
    service.credentialsFile,
    JSON.stringify({
      type: 'service_account',
      project_id: 'demo',
      client_email: 'push@demo.iam.gserviceaccount.com',
      private_key: service.privatePem,
      token_uri: `${service.url}/token`,
    }),
  )
  return service
}

/** Apple's service: HTTP/2 only, and a provider token signed with the team's key. */
export async function startApns() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const heard: Heard[] = []
  const tokens = new Set<string>()
  const sessions = new Set<ServerHttp2Session>()
  const service = {
    url: '',
    keyFile: join(folder, 'AuthKey.p8'),
    privatePem: pem(privateKey),
    heard,
    /** Provider tokens that were shown so far. */
    tokens,
    connections: 0,
    answer: (_heard: Heard): Behaviour => ({ status: 200 }),
    close: () => {
      for (const session of sessions) session.destroy()
      server.close()
    },
  }
  const server = createHttp2Server()
  server.on('session', (session) => {
    service.connections++
    sessions.add(session)
    session.on('close', () => sessions.delete(session)).on('error', () => {})
  })
  server.on('stream', async (stream, headers) => {
    stream.on('error', () => {})
    let text = ''
    for await (const chunk of stream) text += chunk
    const reply = (status: number, body?: object, more: Record<string, string> = {}) => {
      stream.respond({ ':status': status, 'apns-id': String(headers['apns-id'] ?? ''), ...more })
      stream.end(body ? JSON.stringify(body) : '')
    }
    const bearer = String(headers.authorization ?? '').replace(/^bearer /, '')
    try {
      const { payload, protectedHeader } = await jwtVerify(bearer, publicKey, {
        algorithms: ['ES256'],
        issuer: 'TEAM123456',
      })
      if (protectedHeader.kid !== 'KEY1234567' || payload.iat === undefined) throw new Error('kid')
    } catch {
      return reply(403, { reason: 'InvalidProviderToken' })
    }
    tokens.add(bearer)
    const token = decodeURIComponent(String(headers[':path']).replace('/3/device/', ''))
    const one = { token, headers, body: JSON.parse(text) }
    heard.push(one)
    const behaviour = service.answer(one)
    if (behaviour === 'break') return stream.session?.destroy()
    if (behaviour === 'stall') return undefined
    return reply(behaviour.status, behaviour.body, behaviour.headers)
  })
  service.url = await listen(server)
  writeFileSync(service.keyFile, service.privatePem)
  return service
}
