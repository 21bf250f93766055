import type { Maybe, Session, SessionStore } from './session-store.ts'

/** What was kept; null when it is missing or broken. */
function read(text: () => string | null): Session | null {
  try {
    return JSON.parse(text() ?? 'null')
  } catch {
    return null
  }
}

export function memory(): SessionStore {
  let kept: Session | null = null
  return {
    load: () => kept,
    save(session) {
      kept = session
    },
    clear() {
      kept = null
    },
  }
}

/** `localStorage`, which all tabs share. */
function tabs(storage: Storage, name: string): SessionStore {
  const { locks } = navigator as { locks?: LockManager }
  const store: SessionStore = {
    load: () => read(() => storage.getItem(name)),
    save: (session) => storage.setItem(name, JSON.stringify(session)),
    clear: () => storage.removeItem(name),
    onChange(changed) {
      addEventListener('storage', ({ key }) => {
        if (!key || key === name) changed()
      })
    },
  }
  if (locks) {
    store.lock = <T>(work: () => Promise<T>) => locks.request(name, work) as Promise<T>
  }
  return store
}

export function defaultStore(url: string): SessionStore {
  try {
    // Node's own is undefined without a flag, and tells of no change.
    return tabs((addEventListener as object) && localStorage, `savanna:${url}`)
  } catch {
    // There is none, or the browser forbids it.
    return memory()
  }
}

type Cookies = {
  get(name: string): Maybe<string | null | undefined>
  set(name: string, value: string): Maybe<void>
  remove(name: string): Maybe<void>
}

const COOKIE_SIZE = 3_500

/** A session in cookies, for pages that a server renders; cut, because a cookie holds 4 kB. */
export function cookies({ get, set, remove }: Cookies, name = 'savanna'): SessionStore {
  const parts = async (): Promise<string[]> => {
    const all: string[] = []
    for (let part = await get(`${name}.0`); part; part = await get(`${name}.${all.length}`)) all.push(part)
    return all
  }
  const write = async (text: string): Promise<void> => {
    const old = (await parts()).length
    const count = Math.ceil(text.length / COOKIE_SIZE)
    for (let i = 0; i < count; i++) await set(`${name}.${i}`, text.slice(i * COOKIE_SIZE, (i + 1) * COOKIE_SIZE))
    for (let i = count; i < old; i++) await remove(`${name}.${i}`)
  }
  return {
    async load() {
      const text = (await parts()).join('')
      return read(() => decodeURIComponent(text))
    },
    save: (session) => write(encodeURIComponent(JSON.stringify(session))),
    clear: () => write(''),
  }
}
