import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { atEnd } from '../../../test/kit/at-end.ts'

const here = fileURLToPath(new URL('.', import.meta.url))

/** A module of this folder with everything it imports, as one script. */
export async function scriptOf(code: string, format: 'esm' | 'iife' = 'iife'): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: here, loader: 'tsx' },
    bundle: true,
    write: false,
    format,
    target: 'es2022',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"development"' },
    logLevel: 'warning',
  })
  return outputFiles[0]?.text ?? ''
}

/** A page of another origin than the server's, as applications are. */
export async function startPage(script: string): Promise<string> {
  const server = createServer((request, response) => {
    const isScript = request.url === '/script.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html; charset=utf-8' })
    response.end(
      isScript ? script : '<!doctype html><title>page</title><div id="app"></div><script src="/script.js"></script>',
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(() => {
    server.closeAllConnections()
    server.close()
  })
  // Passkeys need a name, not an address.
  return `http://localhost:${(server.address() as AddressInfo).port}/`
}
