import { ApiError, send } from './shared/api.ts'
import { find, pageData } from './shared/dom.ts'
import { messageOf } from './shared/form.ts'

// The page of a link in a mail. The token is removed from the address bar at once and used only when the button is
// pressed, because mail scanners open links but press no buttons.

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
    if (returnsTo) redirectWith(answer)
  } catch (error) {
    status.textContent = messageOf(error)
    // Another password may be accepted; a refused token stays invalid.
    button.disabled = error instanceof ApiError && !password
  }
})

/** Passes tokens in the fragment, which browsers send to no server. */
function redirectWith({ user, ...tokens }: { user?: object } = {}): void {
  location.replace(`${returnsTo.split('#')[0]}#${new URLSearchParams(tokens)}`)
}
