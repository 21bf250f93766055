/**
 * The one file that reaches inside `pg` (exact version, see docs/decisions/protocol.md). Of pg are used:
 * connecting, TLS, authentication, the end of a connection, and its parser for messages that are rare.
 *
 * - `client.connection.attachListeners`: the bytes of the socket go through wholeMessages before pg's parser.
 * - `client.connection.stream`: replaced before connecting by a socket that reads into one buffer, and written to directly.
 * - `client.connection` events `errorMessage`, `rowDescription`: handled here instead of by pg's queue of queries.
 * - `client.getStartupConf`: the settings that are sent at the login.
 * - `client.processID`, `client.secretKey`, `connection.cancel`: to cancel what a backend is running, over TLS
 *   (`connection.requestSsl`, event `sslconnect`) where the connection has it.
 */
import type { EventEmitter } from 'node:events'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import pg from 'pg'
import { parseIntoClientConfig } from 'pg-connection-string'
import { asConnectionError, type PgError } from '../pg-errors.ts'
import { isBackend } from './local-backend.ts'
import { logIn, sendSettings, setWhereMissing } from './settings.ts'
import { ReceiveBuffers, wholeMessages } from './whole-messages.ts'

export type ConnectOptions = {
  /** A connection string; `postgres://user@/db?host=/path` reaches a unix socket. */
  url: string
  /** Who logs in, if not the one the URL names. */
  login?: DatabaseLogin | undefined
  connectTimeoutMs?: number
  applicationName?: string
  /** A standby is refused as if it were not there. */
  mustWrite?: boolean
  /** Speaks the replication protocol: of the cluster (`true`), or of one database. */
  replication?: 'true' | 'database'
}

export type DatabaseLogin = { user: string; password?: string }

/** What a connection does with the messages that arrive once it is logged in. */
export type MessageHandlers = {
  /** Whole messages. What it does not read itself it passes on to pg. The bytes are good until the call ends. */
  onMessages(messages: Buffer, passOn: (messages: Buffer) => void): void
  onError(error: PgError): void
  onFields(fields: pg.FieldDef[]): void
  /** Whether so many bytes of one message may be kept. */
  mayHold(bytes: number): boolean
  onEnd(cause: Error): void
}

/** PostgreSQL 14 and newer tell at the login whether they are a standby. */
type ParameterStatus = { parameterName: string; parameterValue: string }

type Inside = EventEmitter & {
  ssl: unknown
  sslNegotiation: string
  stream: Socket
  requestSsl(): void
  attachListeners(stream: Duplex): void
  connect(portOrPath: number | string, host?: string): void
  cancel(processId: number, secretKey: number): void
}

const insideOf = (client: pg.Client): Inside => (client as unknown as { connection: Inside }).connection

/** Opens one connection of its own, outside the pool, for what pg itself does well. The caller ends it. */
export async function openConnection(options: ConnectOptions): Promise<pg.Client> {
  const client = await logIn(options.url, async () => {
    const client = makeClient(options)
    feedWholeMessages(client, new ReceiveBuffers())
    nameStatements(client)
    await connect(client)
    return client
  })
  await setWhereMissing(client, options)
  return client
}

/** Drops the socket without waiting. */
export const destroy = (client: pg.Client): unknown => insideOf(client).stream.destroy()

/** A logged-in connection whose messages are written and read by our own code, not by pg. */
export class DriverSocket {
  readonly #client: pg.Client
  readonly #options: ConnectOptions
  readonly #stream: Socket
  /** The backend is no process of this machine. */
  #isElsewhere = false

  private constructor(client: pg.Client, options: ConnectOptions) {
    this.#client = client
    this.#options = options
    this.#stream = insideOf(client).stream
  }

  /** `handlers` are called from the moment on in which this resolves. */
  static open(options: ConnectOptions, receiving: ReceiveBuffers, handlers: MessageHandlers): Promise<DriverSocket> {
    return logIn(options.url, () => DriverSocket.#open(options, receiving, handlers))
  }

  static async #open(
    options: ConnectOptions,
    receiving: ReceiveBuffers,
    handlers: MessageHandlers,
  ): Promise<DriverSocket> {
    const client = makeClient(options)
    let isReady = false
    feedWholeMessages(client, receiving, {
      onMessages: (messages, passOn) => (isReady ? handlers.onMessages(messages, passOn) : passOn(messages)),
      mayHold: (bytes) => !isReady || handlers.mayHold(bytes),
    })
    let isStandby = false
    const watch = ({ parameterName, parameterValue }: ParameterStatus): void => {
      if (parameterName === 'in_hot_standby') isStandby = parameterValue === 'on'
    }
    if (options.mustWrite) insideOf(client).on('parameterStatus', watch)
    await connect(client)
    insideOf(client).off('parameterStatus', watch)
    if (isStandby) {
      destroy(client)
      throw asConnectionError(new Error('the server is a standby'))
    }
    isReady = true
    const events = insideOf(client)
    events.removeAllListeners('errorMessage').on('errorMessage', handlers.onError)
    events.removeAllListeners('rowDescription').on('rowDescription', ({ fields }) => handlers.onFields(fields))
    let cause: Error | undefined
    client.on('error', (error) => {
      cause ??= error
    })
    client.once('end', () =>
      handlers.onEnd(asConnectionError(cause ?? new Error('Connection terminated unexpectedly'))),
    )
    return new DriverSocket(client, options)
  }

  write(bytes: Buffer): void {
    if (this.#stream.writable) this.#stream.write(bytes)
  }
  /** Resolves when what was written has left, or never will. */
  async drained(): Promise<void> {
    if (!this.#stream.writableNeedDrain || this.#stream.destroyed) return
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#stream.off('drain', settle)
        this.#stream.off('close', settle)
        resolve()
      }
      this.#stream.on('drain', settle)
      this.#stream.on('close', settle)
    })
  }
  pause(): void {
    this.#stream.pause()
  }
  resume(): void {
    this.#stream.resume()
  }
  destroy(): void {
    this.#stream.destroy()
  }
  async end(): Promise<void> {
    await this.#client.end().catch(() => {})
  }

  /** See Connection. Asked each time, because a number that is free again may become that of any process. */
  get localBackend(): number | undefined {
    if (this.#isElsewhere) return undefined
    const { processID: pid, user = '' } = this.#client as unknown as { processID: number; user?: string }
    const { localPort } = this.#stream
    this.#isElsewhere = !isBackend(pid, user, localPort === undefined ? '[local]' : `(${localPort})`)
    return this.#isElsewhere ? undefined : pid
  }

  /** Cancels what the backend is running; over a connection of its own, as the protocol demands. */
  async cancel(): Promise<void> {
    const target = this.#client as unknown as { processID: number; secretKey: number }
    const canceller = new pg.Client({ connectionString: this.#options.url })
    canceller.on('error', () => {})
    const inside = insideOf(canceller)
    const { host, port } = canceller
    await new Promise<void>((resolve) => {
      inside.on('error', () => resolve())
      inside.on('end', () => resolve())
      const cancel = (): void => inside.cancel(target.processID, target.secretKey)
      inside.on('connect', () => {
        if (!inside.ssl) cancel()
        else if (inside.sslNegotiation !== 'direct') inside.requestSsl()
      })
      inside.on('sslconnect', cancel)
      if (host.startsWith('/')) inside.connect(`${host}/.s.PGSQL.${port}`)
      else inside.connect(port, host)
    })
  }
}

let open = 0

/** How many connections this process has to PostgreSQL now, for whatever purpose. */
export const openConnectionCount = (): number => open

async function connect(client: pg.Client): Promise<void> {
  await client.connect().catch((error: Error) => {
    throw asConnectionError(error)
  })
  open++
  client.once('end', () => open--)
}

function makeClient(options: ConnectOptions): pg.Client {
  const client = new pg.Client({
    ...addressOf(options),
    application_name: options.applicationName ?? 'savanna',
    connectionTimeoutMillis: options.connectTimeoutMs ?? 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ...(options.replication && { replication: options.replication }),
    // Values stay the text PostgreSQL sent; db/values.ts converts where an object is needed.
    types: { getTypeParser: () => (value: string) => value },
  } as pg.ClientConfig)
  sendSettings(client, options)
  client.on('error', () => {}) // a lost connection is noticed by its queries and by `end`
  return client
}

/** As pg reads a connection string, with another login in it. */
const addressOf = ({ url, login }: ConnectOptions): pg.ClientConfig =>
  login
    ? { ...parseIntoClientConfig(url), user: login.user, password: login.password ?? '' }
    : { connectionString: url }

/** A failure carries the statement, as that of a flight does. */
function nameStatements(client: pg.Client): void {
  const query = client.query.bind(client) as (...input: unknown[]) => unknown
  const named = (...input: unknown[]): unknown => {
    const answer = query(...input)
    if (!(answer instanceof Promise) || typeof input[0] !== 'string') return answer
    return answer.catch((error: Error) => {
      throw Object.assign(asConnectionError(error), { statement: input[0] })
    })
  }
  client.query = named as typeof client.query
}

/** Passes whole messages to `handlers`, or to pg's parser. */
function feedWholeMessages(
  client: pg.Client,
  receiving: ReceiveBuffers,
  handlers?: Pick<MessageHandlers, 'onMessages' | 'mayHold'>,
): void {
  const inside = insideOf(client)
  const attach = inside.attachListeners
  let receive: (bytes: Buffer) => void = () => {}
  // TLS reads from its socket by itself.
  const isInPlace = handlers !== undefined && !inside.ssl
  if (isInPlace) inside.stream = socketInPlace(receiving.place, (bytes) => receive(bytes))
  inside.attachListeners = function (stream) {
    attach.call(this, stream)
    const [parse, ...others] = stream.listeners('data') as ((bytes: Buffer) => void)[]
    if (!parse || others.length > 0) return
    stream.off('data', parse)
    const messages = wholeMessages({
      receiving,
      feed: handlers ? (bytes) => handlers.onMessages(bytes, parse) : parse,
      refuse: (reason) => stream.destroy(new Error(reason)),
      mayHold: handlers?.mayHold ?? (() => true),
    })
    receive = messages.take
    if (!isInPlace) stream.on('data', receive)
    stream.once('close', messages.drop)
  }
}

/** Node would set memory aside for each read, which is most of what a long answer leaves to be collected. */
function socketInPlace(buffer: Buffer, receive: (bytes: Buffer) => void): Socket {
  const callback = (count: number, bytes: Uint8Array): boolean => {
    receive((bytes as Buffer).subarray(0, count))
    return true
  }
  return new Socket({ onread: { buffer, callback } } as ConstructorParameters<typeof Socket>[0])
}
