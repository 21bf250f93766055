import { type FileHandle, open } from 'node:fs/promises'
import { causeOf } from '../command/system-error.ts'

export type OpenFile = { size: number; bytes(): AsyncGenerator<Buffer> }

const unreadable = (path: string, cause: string): Error => new Error(`${path} cannot be read: ${cause}`)

/** Opens a file before anything is sent, so that what is wrong with it is not taken for a failure of the server. */
export async function withFile<T>(path: string, work: (file: OpenFile) => Promise<T>): Promise<T> {
  const handle = await opened(path)
  let failure: Error | undefined
  const bytes = async function* (): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of handle.createReadStream({ autoClose: false })) yield chunk as Buffer
    } catch (error) {
      failure = unreadable(path, causeOf(error))
      throw failure
    }
  }
  try {
    return await work({ size: (await handle.stat()).size, bytes })
  } catch (error) {
    throw failure ?? error
  } finally {
    await handle.close().catch(() => {})
  }
}

async function opened(path: string): Promise<FileHandle> {
  const handle = await open(path, 'r').catch((error: unknown) => {
    throw unreadable(path, causeOf(error))
  })
  if (!(await handle.stat()).isDirectory()) return handle
  await handle.close()
  throw unreadable(path, 'it is a folder')
}
