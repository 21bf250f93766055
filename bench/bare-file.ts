import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'

/** The mark that downloads are measured against: one file, and nothing around it. */
let input = ''
for await (const chunk of process.stdin) input += chunk
const { file } = JSON.parse(input) as { file: string }
const server = createServer((_request, response) => {
  createReadStream(file).pipe(response)
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as { port: number }).port}\n`)
})
