import { SYSTEM } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import { audited } from '../../../db/audit.ts'
import type { Db } from '../../../db/db.ts'
import { sql } from '../../../db/sql.ts'
import { noContentAfter, type Route, route } from '../../../http/route.ts'
import type { Channels } from './channels.ts'
import { requireChannelName } from './limits.ts'
import { banMember, removeEndedBans } from './sql.ts'

export function channelRoutes({
  db,
  channels,
  requires,
}: {
  db: Db
  channels: Channels
  requires: () => void
}): Route[] {
  return [
    route('POST /api/realtime/channels/{channel}', {
      summary: 'Send a message to the members of a channel',
      auth: 'optional',
      leastRole: 'operator',
      access: 'write',
      impersonable: true,
      limit: 'api',
      requires,
      body: t.object({ event: t.string(), payload: t.optional(t.any()) }),
      answers: { 204: null },
      handle: ({ who, params, body }) => noContentAfter(channels.post(who, { channel: params.channel, ...body })),
    }),
    route('DELETE /api/realtime/channels/{channel}/members/{user}', {
      summary: 'Put a user out of a channel, for ten minutes',
      auth: 'admin',
      leastRole: 'operator',
      audit: 'channel_member.delete',
      requires,
      params: { user: t.id('user') },
      answers: { 204: null },
      handle: (call) => {
        const { channel, user } = call.params
        requireChannelName(channel)
        const put = async (): Promise<void> => {
          const target = sql`${`${channel} ${user}`}::text`
          const change = audited(call.audit(), banMember(channel, user), { target })
          await db.run(SYSTEM, [removeEndedBans, change, channels.tellOfRemoval(channel, user)])
          channels.remove(channel, user)
        }
        return noContentAfter(put())
      },
    }),
  ]
}
