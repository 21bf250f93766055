import type { Identity } from '../../core/identity.ts'
import { json, type Reply } from '../../http/route.ts'

/** The stateless revision, which says everything in each request. */
const MODERN = '2026-07-28'
/** Revisions that begin with `initialize`; no session is kept of it. */
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26']
const META = 'io.modelcontextprotocol/'

type Fields = Readonly<Record<string, unknown>>
type Id = string | number
type Headers = Readonly<Record<string, string | undefined>>

/** A result of `tools/call`: values for programs, and the same as text for models. */
export type ToolResult = { readonly structuredContent: unknown; readonly text: string; readonly isError?: boolean }
export type Tool = {
  readonly name: string
  readonly description: string
  readonly inputSchema: object
  readonly annotations?: object
}

/** What a server of the protocol is, beyond the protocol. */
export type McpServer = {
  readonly name: string
  readonly version: string
  readonly instructions: string
  tools(who: Identity): readonly Tool[] | Promise<readonly Tool[]>
  /** Undefined for a tool that there is not. */
  call(name: string, args: Fields): Promise<ToolResult | undefined>
}

/** A refusal of the protocol itself. `status` is that of HTTP. */
class ProtocolError extends Error {
  readonly code: number
  readonly status: number
  readonly data: unknown
  constructor(code: number, message: string, status = 400, data?: unknown) {
    super(message)
    this.code = code
    this.status = status
    this.data = data
  }
}

const INVALID_REQUEST = -32600
const METHOD_NOT_FOUND = -32601
const INVALID_PARAMS = -32602
const HEADER_MISMATCH = -32020
const UNSUPPORTED_VERSION = -32022

/** Answers one message of the Model Context Protocol, in either revision. */
export async function answerMessage(
  server: McpServer,
  who: Identity,
  { body, headers }: { body: unknown; headers: Headers },
): Promise<Reply> {
  const id = idOf(body)
  try {
    if (!isFields(body) || body['jsonrpc'] !== '2.0') {
      throw new ProtocolError(
        INVALID_REQUEST,
        Array.isArray(body) ? 'batches are not supported' : 'no JSON-RPC 2.0 message',
      )
    }
    const { method, params = {} } = body
    // Answers of clients and notifications: there is nothing to say.
    if (typeof method !== 'string') {
      if (body['result'] !== undefined || body['error'] !== undefined) return { status: 202 }
      throw new ProtocolError(INVALID_REQUEST, 'method is required')
    }
    if (!isFields(params)) throw new ProtocolError(INVALID_PARAMS, 'params must be an object')
    const revision = revisionOf(method, params, headers)
    if (body['id'] === undefined) return { status: 202 }
    if (id === null)
      throw new ProtocolError(INVALID_REQUEST, `id must be an integer, or a string of at most ${MAX_ID_BYTES} bytes`)
    const result = await resultOf(server, who, revision, method, params)
    return json(200, { jsonrpc: '2.0', id, result: revision === MODERN ? modern(server, result) : result })
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error
    const { code, message, data, status } = error
    return json(status, { jsonrpc: '2.0', id, error: { code, message, ...(data !== undefined && { data }) } })
  }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** It is answered, so it counts to the bytes of an answer. */
const MAX_ID_BYTES = 256

function idOf(body: unknown): Id | null {
  const id = isFields(body) ? body['id'] : undefined
  const isText = typeof id === 'string' && Buffer.byteLength(JSON.stringify(id)) <= MAX_ID_BYTES
  return isText || Number.isSafeInteger(id) ? (id as Id) : null
}

/** Which revision a message is of. Headers have to say what the body says, so that what reads them is not deceived. */
function revisionOf(method: string, params: Fields, headers: Headers): string {
  const claimed = isFields(params['_meta']) ? params['_meta'][`${META}protocolVersion`] : undefined
  const named = headers['mcp-protocol-version']
  if (claimed === undefined) {
    if (named === MODERN) {
      if (method === 'initialize') throw mismatch('an initialize request with the header of a revision that has none')
      throw new ProtocolError(INVALID_PARAMS, `the request is missing _meta["${META}protocolVersion"]`)
    }
    if (named !== undefined && method !== 'initialize' && !LEGACY.includes(named)) throw unsupported(named)
    return LEGACY[0] ?? ''
  }
  if (claimed !== MODERN) throw unsupported(String(claimed).slice(0, 40))
  if (named !== claimed) throw mismatch('the MCP-Protocol-Version header is not that of the body')
  if (headers['mcp-method'] !== method) throw mismatch('the Mcp-Method header is not the method of the body')
  if (method === 'tools/call' && decoded(headers['mcp-name']) !== params['name']) {
    throw mismatch('the Mcp-Name header is not the name in the body')
  }
  return MODERN
}

const mismatch = (why: string) => new ProtocolError(HEADER_MISMATCH, `headers and body disagree: ${why}`)
const unsupported = (requested: string) =>
  new ProtocolError(UNSUPPORTED_VERSION, 'unsupported protocol version', 400, { supported: [MODERN], requested })

/** `=?base64?…?=`: for what no header can carry. */
function decoded(value: string | undefined): string | undefined {
  const text = /^=\?base64\?(.*)\?=$/.exec(value ?? '')?.[1]
  return text === undefined ? value : Buffer.from(text, 'base64').toString('utf8')
}

/** Every answer of the stateless revision says who answers and that it is complete. */
const modern = ({ name, version }: McpServer, result: Fields): Fields => ({
  ...result,
  resultType: 'complete',
  _meta: { [`${META}serverInfo`]: { name, version } },
})

/** A caller's tables may change at any time, and what one sees is no other's business. */
const UNCACHED = { ttlMs: 0, cacheScope: 'private' }

async function resultOf(
  server: McpServer,
  who: Identity,
  revision: string,
  method: string,
  params: Fields,
): Promise<Fields> {
  const { name, version, instructions } = server
  const isModern = revision === MODERN
  switch (method) {
    case 'initialize': {
      if (isModern) break
      const asked = params['protocolVersion']
      const protocolVersion = LEGACY.find((one) => one === asked) ?? LEGACY[0]
      return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name, version }, instructions }
    }
    case 'server/discover':
      if (!isModern) break
      return { supportedVersions: [MODERN], capabilities: { tools: {} }, instructions, ...UNCACHED }
    case 'ping':
      return {}
    case 'tools/list':
      return { tools: await server.tools(who), ...(isModern && UNCACHED) }
    case 'tools/call':
      return callTool(server, params)
  }
  throw new ProtocolError(METHOD_NOT_FOUND, `method not found: ${method.slice(0, 100)}`, isModern ? 404 : 200)
}

async function callTool(server: McpServer, { name, arguments: args = {} }: Fields): Promise<Fields> {
  if (typeof name !== 'string') throw new ProtocolError(INVALID_PARAMS, 'name is required', 200)
  if (!isFields(args)) throw new ProtocolError(INVALID_PARAMS, 'arguments must be an object', 200)
  const result = await server.call(name, args)
  if (!result) throw new ProtocolError(INVALID_PARAMS, `unknown tool: ${name.slice(0, 100)}`, 200)
  const { structuredContent, text, isError } = result
  return { content: [{ type: 'text', text }], structuredContent, ...(isError && { isError }) }
}
