import { alertLine, buttons, section, soft, statusLine } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'

/** The invitation whose link opened the page, if one did. The token is in the fragment, which no server sees. */
export function invitationSection(): HTMLElement | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get('invite')
  if (token === null) return undefined
  const status = statusLine()
  const join = button('Join', async () => {
    const path = `/api/orgs/invites/${encodeURIComponent(token)}/accept`
    const { name } = await session.call<{ name: string }>('POST', path)
    history.replaceState(null, '', location.pathname)
    join.remove()
    status.textContent = `You are now a member of ${name}.`
  })
  return section(
    'Invitation',
    soft('You are invited to an organization. The invitation is for the verified address it was mailed to.'),
    status,
    alertLine(),
    buttons(join),
  )
}
