import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, type CDPSession, chromium, type Page } from 'playwright-core'
import { atEnd, atProcessEnd } from './at-end.ts'

const executablePath = '/usr/bin/chromium'

/** For the option of the same name of a test. */
export const skip = existsSync(executablePath) ? false : 'chromium is not installed'

let shared: Promise<Browser> | undefined

/** One for all test files of a process, because starting it takes a second of both cores; pages end with their file. */
export async function startBrowser(): Promise<Browser> {
  shared ??= launch()
  const browser = await shared
  atEnd(() => Promise.all(browser.contexts().map((context) => context.close())))
  return browser
}

async function launch(): Promise<Browser> {
  const args = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
  ]
  const browser = await chromium.launch({ executablePath, args })
  atProcessEnd(() => browser.close())
  return browser
}

/** A device that holds passkeys and says yes to everything, as one of Chromium's virtual authenticators. */
export class VirtualAuthenticator {
  readonly #cdp: CDPSession
  readonly #id: string

  private constructor(cdp: CDPSession, id: string) {
    this.#cdp = cdp
    this.#id = id
  }

  static async of(context: BrowserContext, page: Page): Promise<VirtualAuthenticator> {
    const cdp = await context.newCDPSession(page)
    await cdp.send('WebAuthn.enable')
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    return new VirtualAuthenticator(cdp, authenticatorId)
  }

  /** As if it were another device: its passkeys are out of reach. */
  async remove(): Promise<void> {
    await this.#cdp.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId: this.#id })
  }
}
