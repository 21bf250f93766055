import type { Config } from '../config/config.ts'
import { readRestored } from '../db/setup/embedded/restored.ts'
import type { Store } from '../features/storage/blobs/store.ts'
import { type Outgoing, OutgoingError } from '../http/out/outgoing.ts'

/** The server runs on a restored copy that was not taken over: nothing leaves it, and nothing shared is removed. */
export const isDrill = ({ database, data_dir }: Config): boolean =>
  database.url === '' && readRestored(data_dir)?.drill === true

export const drillWarning = ({ data_dir }: Config): string =>
  'this server is a drill: it sends no mail, webhook or push, runs no schedule, removes no file and takes no backup; ' +
  `svc restore take-over --data-dir ${data_dir} makes it the server`

/** Its queues stand still, so these are the few requests that are made at once. */
export const closedOutgoing = (outgoing: Outgoing): Outgoing => ({
  assertAllowedUrl: (url) => outgoing.assertAllowedUrl(url),
  request: async () => {
    throw new OutgoingError('blocked', 'blocked: this server is a drill')
  },
  stop: () => outgoing.stop(),
})

/** The files may be those of the server it was copied from. */
export function keepingStore(store: Store): Store {
  const keep: Pick<Store, 'remove' | 'removeUnfinished'> = {
    remove: async () => {},
    removeUnfinished: async () => 0,
  }
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = name in keep ? keep[name as keyof typeof keep] : Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
