import { ApiError, send } from './shared/api.ts'
import { find, pageData } from './shared/dom.ts'
import { messageOf } from './shared/form.ts'

// The page behind a link in a mail. The token leaves the address bar at once, and is spent only by a press of the button:
// programs that open links in mail to look at them do not press buttons.

const token = new URLSearchParams(location.search).get('token') ?? ''
history.replaceState(null, '', location.pathname)

const { post, done, returnsTo } = pageData<'mail-link'>()
const form = find('form')
const button = find('button')
const status = find('p')
const password = form.querySelector('input')

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  button.disabled = true
  try {
    const answer = await send<object | undefined>('POST', post, { body: { token, password: password?.value } })
    form.remove()
    status.textContent = done
    if (returnsTo) leaveWith(answer)
  } catch (error) {
    status.textContent = messageOf(error)
    // Another password may do; a token that was refused is spent.
    button.disabled = error instanceof ApiError && !password
  }
})

/** Tokens travel in the fragment, which is sent to no server. */
function leaveWith({ user, ...tokens }: { user?: object } = {}): void {
  location.replace(`${returnsTo.split('#')[0]}#${new URLSearchParams(tokens)}`)
}
