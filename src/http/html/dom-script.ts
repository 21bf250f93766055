/**
 * Browser code is kept as text: the server is one file when it is built, and a page is one answer. See
 * docs/decisions/0050-pages-for-people.md. It uses no backticks and no `</`.
 *
 * Offers `el`, `field`, `button`, `form`, `show`, `focusOn` and `attempt`.
 */
export const domScript = `
/** el('p', { class: 'soft' }, 'text', node): text is always text, never HTML. */
function el(tag, props, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(props || {})) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value)
    else if (value === true) node.setAttribute(name, '')
    else if (value !== false && value !== undefined) node.setAttribute(name, value)
  }
  node.append(...children)
  return node
}

const field = (label, props) => el('label', null, label, el('input', props))

/** A button that works on its own; one that sends its form is el('button'). */
const button = (label, work, kind = 'plain') => {
  const said = el('span', { role: 'alert' })
  const node = el('button', { type: 'button', class: kind, onclick: () => attempt([node], alertNear(node, said), work) }, label)
  return node
}

/** Where a failure is told: the alert of the surrounding form or section, else one behind the button. */
function alertNear(node, otherwise) {
  const home = node.closest('form, section, dialog')
  const there = home && home.querySelector('[role=alert]')
  if (there) return there
  node.after(otherwise)
  return otherwise
}

/** A form that says what went wrong and cannot be sent twice at once. */
function form(submit, ...children) {
  const said = el('p', { role: 'alert' })
  const node = el('form', {
    onsubmit: (event) => {
      event.preventDefault()
      return attempt([...node.querySelectorAll('button')], said, () => submit(Object.fromEntries(new FormData(node))))
    },
  }, ...children, said)
  return node
}

async function attempt(buttons, said, work) {
  said.textContent = ''
  for (const one of buttons) one.disabled = true
  try {
    await work()
  } catch (error) {
    said.textContent = error.message
  } finally {
    for (const one of buttons) one.disabled = false
  }
}

/** Replaces what a place shows, and takes keyboards and screen readers there. */
function show(place, ...nodes) {
  place.replaceChildren(...nodes)
  focusOn(place.querySelector('input:not([readonly])') || place.querySelector('h1, h2'))
}

function focusOn(node) {
  if (!node) return
  if (node.tagName !== 'INPUT') node.tabIndex = -1
  node.focus()
}
`
