import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { notFound } from '../../core/errors.ts'
import { contentTypeOf } from '../../http/files/content-type.ts'
import { acceptedEncodings } from '../../http/files/encodings.ts'
import type { Call, Reply } from '../../http/route.ts'

/** Also of scripts, because a worker takes its policy from its own answer. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "font-src 'self'",
  "connect-src 'self'",
  "frame-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "worker-src 'self'",
  "require-trusted-types-for 'script'",
  'trusted-types savanna',
].join('; ')

const SHELL = 'index.html'
/** One name without folders; no hidden file and no precompressed variant. */
const ASSET = /^(?!.*\.(?:br|gz)$)[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/

/** The files of a built dashboard: `index.html`, and `assets/` with hashed names, each with `.br` and `.gz` beside it. */
export class BuiltFiles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async isThere(): Promise<boolean> {
    return (await this.#read(SHELL)) !== undefined
  }

  /** Not cached, because it names the assets of one build. */
  async shell(call: Call): Promise<Reply> {
    const reply = await this.#reply(call, SHELL, 'no-store')
    if (reply) return reply
    throw notFound('the dashboard is not built: run npm run build', 'feature_disabled')
  }

  async asset(call: Call, name: string): Promise<Reply> {
    const reply = ASSET.test(name)
      ? await this.#reply(call, `assets/${name}`, 'public, max-age=31536000, immutable')
      : undefined
    if (reply) return reply
    throw notFound('not found')
  }

  async #reply({ headers }: Call, path: string, cacheControl: string): Promise<Reply | undefined> {
    const common = {
      'Content-Type': contentTypeOf(path),
      'Cache-Control': cacheControl,
      'Content-Security-Policy': POLICY,
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Referrer-Policy': 'no-referrer',
      Vary: 'Accept-Encoding',
    }
    for (const { name, suffix } of acceptedEncodings(headers['accept-encoding'])) {
      const content = await this.#read(path + suffix)
      if (content) return { status: 200, headers: { ...common, 'Content-Encoding': name }, content }
    }
    const content = await this.#read(path)
    return content && { status: 200, headers: common, content }
  }

  async #read(path: string): Promise<Buffer | undefined> {
    try {
      return await readFile(join(this.#folder, path))
    } catch (error) {
      if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
      throw error
    }
  }
}
