import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import type { S3Config } from '../../src/features/storage/blobs/s3-store.ts'
import { eventually } from '../kit/eventually.ts'
import { freePort } from '../kit/free-port.ts'
import { programOf } from '../kit/programs.ts'

export type TestS3 = {
  /** The settings that make a server use it. */
  config: Record<string, unknown>
  /** The same, for a store alone. */
  store: Omit<S3Config, 'abandonedMs'>
  /** Makes everything in it as old as can be. */
  age(): void
  /** Ends it at once; it can be started again with all that it has. */
  kill(): Promise<void>
  start(): Promise<void>
}

/** An S3 server in a process of its own; or, as SVC_TEST_S3=http://key:secret@host:port says, any that runs somewhere. */
export async function startS3(): Promise<TestS3> {
  const elsewhere = process.env['SVC_TEST_S3']
  return elsewhere === undefined ? startOwn() : connectTo(new URL(elsewhere))
}

async function startOwn(): Promise<TestS3> {
  const port = await freePort()
  const bucket = 'svc-files'
  const directory = mkdtempSync(join(tmpdir(), 'svc-s3-'))
  const program = [...programOf('test/fakes/s3-process.ts'), directory, String(port), bucket]
  const run = () => spawn(process.execPath, program, { stdio: 'ignore' })
  let child = run()
  const answers = () => eventually(() => fetch(`http://127.0.0.1:${port}/`))
  const kill = async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await ended
  }
  after(async () => {
    await kill()
    rmSync(directory, { recursive: true, force: true })
  })
  await answers()
  return {
    ...settings({ endpoint: `127.0.0.1:${port}`, bucket, accessKey: 'S3RVER', secretKey: 'S3RVER' }),
    age() {
      for (const name of readdirSync(directory, { recursive: true })) utimesSync(join(directory, String(name)), 0, 0)
    },
    kill,
    async start() {
      child = run()
      await answers()
    },
  }
}

async function connectTo({ host, username: accessKey, password: secretKey }: URL): Promise<TestS3> {
  const bucket = `svc-${randomUUID()}`
  const client = new S3Client({
    endpoint: `http://${host}`,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: accessKey, secretAccessKey: secretKey },
  })
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  const cannot = (): never => {
    throw new Error('only a server of our own can be killed, and its files made old')
  }
  return { ...settings({ endpoint: host, bucket, accessKey, secretKey }), age: cannot, kill: cannot, start: cannot }
}

function settings(s3: { endpoint: string; bucket: string; accessKey: string; secretKey: string }) {
  return {
    config: {
      'storage.backend': 's3',
      'storage.s3_endpoint': s3.endpoint,
      'storage.s3_use_ssl': false,
      'storage.s3_bucket': s3.bucket,
      'storage.s3_access_key': s3.accessKey,
      'storage.s3_secret_key': s3.secretKey,
    },
    store: { ...s3, region: 'us-east-1', useSsl: false, maxFileBytes: 1e9 },
  }
}
