import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

const BUCKET = 'svc-files'

/** An S3 server in a process of its own, and the settings that make a server use it. */
export async function startS3(): Promise<Record<string, unknown>> {
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), 'svc-s3-'))
  const program = join(dirname(createRequire(import.meta.url).resolve('s3rver/package.json')), 'bin/s3rver.js')
  const options = ['-d', directory, '-a', '127.0.0.1', '-p', String(port), '--no-vhost-buckets', '--silent']
  const child = spawn(process.execPath, [program, ...options, '--configure-bucket', BUCKET], { stdio: 'ignore' })
  after(() => {
    child.kill('SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  })
  await eventually(() => fetch(`http://127.0.0.1:${port}/`), { seconds: 30 })
  return {
    'storage.backend': 's3',
    'storage.s3_endpoint': `127.0.0.1:${port}`,
    'storage.s3_use_ssl': false,
    'storage.s3_bucket': BUCKET,
    'storage.s3_access_key': 'S3RVER',
    'storage.s3_secret_key': 'S3RVER',
  }
}
