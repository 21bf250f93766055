import { reasonOf } from '../../core/errors.ts'
import { inParallel } from '../../core/limits.ts'
import { isUuid } from '../../core/uuid.ts'
import { type Context, UsageError } from '../command/command.ts'
import { callAdmin } from '../command/server-api.ts'
import { filesOf, type LocalFile } from './folder.ts'
import { Progress } from './progress.ts'
import { sendFile } from './send-file.ts'

type Site = { id: string; slug: string }
type Deploy = { id: string; fileCount: number; totalBytes: number }

const LISTED_AT_ONCE = 1_000
const SENT_AT_ONCE = 4
const ATTEMPTS = 3

/** Uploads a folder as a deploy and promotes it. After a failure the previous deploy stays live. */
export async function deploy(context: Context): Promise<number> {
  const [folder = ''] = context.args
  const idOrSlug = context.flag('site')
  if (typeof idOrSlug !== 'string') throw new UsageError(context.usage)
  const { files, left } = await filesOf(folder)
  for (const { path, why } of left) process.stderr.write(`left out: ${path} (${why})\n`)
  if (!files.some(({ path }) => path === 'index.html')) throw new Error(`${folder} has no index.html`)
  const site = await findSite(context, idOrSlug)
  const deploys = `/api/admin/sites/${site.id}/deploys`
  const { id } = JSON.parse(await callAdmin(context, deploys, {})) as Deploy
  try {
    const missing = await missingOf(context, `${deploys}/${id}`, files)
    await sendAll(context, `${deploys}/${id}/files`, missing)
    const text = await callAdmin(context, `${deploys}/${id}/promote`, {})
    const live = JSON.parse(text) as Deploy
    const summary = `${site.slug} is live: ${live.fileCount} files, ${live.totalBytes} bytes, ${missing.length} uploaded`
    context.print(context.json ? text : summary)
    return 0
  } catch (error) {
    await callAdmin(context, `${deploys}/${id}/fail`, { errorMessage: reasonOf(error) }).catch(() => {})
    throw error
  }
}

async function findSite(context: Context, idOrSlug: string): Promise<Site> {
  if (isUuid(idOrSlug)) return JSON.parse(await callAdmin(context, `/api/admin/sites/${idOrSlug}`)) as Site
  for (let page = 1; ; page++) {
    const text = await callAdmin(context, `/api/admin/sites?perPage=100&page=${page}`)
    const { sites, totalCount } = JSON.parse(text) as { sites: Site[]; totalCount: number }
    const found = sites.find(({ slug }) => slug === idOrSlug)
    if (found) return found
    if (page * 100 >= totalCount) throw new Error(`site not found: ${idOrSlug}`)
  }
}

/** The files that the server does not have yet. */
async function missingOf(context: Context, at: string, files: readonly LocalFile[]): Promise<LocalFile[]> {
  const missing = new Set<string>()
  for (let i = 0; i < files.length; i += LISTED_AT_ONCE) {
    const listed = files.slice(i, i + LISTED_AT_ONCE).map(({ path, sha256 }) => ({ path, sha256 }))
    const answer = JSON.parse(await callAdmin(context, `${at}/manifest`, { files: listed })) as { missing: string[] }
    for (const path of answer.missing) missing.add(path)
  }
  return files.filter(({ path }) => missing.has(path))
}

async function sendAll(context: Context, at: string, files: readonly LocalFile[]): Promise<void> {
  const bytes = files.reduce((sum, { size }) => sum + size, 0)
  const progress = new Progress(bytes, files.length)
  try {
    await inParallel(files, SENT_AT_ONCE, async (file) => {
      await sendOne(context, at, file, progress)
      progress.fileDone()
    })
  } finally {
    progress.end()
  }
}

/** Retries, so that one broken connection does not fail the whole deploy. */
async function sendOne(context: Context, at: string, file: LocalFile, progress: Progress): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    let bytes = 0
    try {
      await sendFile(context, at, { from: file.from, name: file.path }, (count) => {
        bytes += count
        progress.add(count)
      })
      return
    } catch (error) {
      progress.add(-bytes)
      if (attempt === ATTEMPTS) throw new Error(`${file.path}: ${reasonOf(error)}`, { cause: error })
    }
  }
}
