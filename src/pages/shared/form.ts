import { alertLine, type Child, el, type Props } from './dom.ts'

export const labelled = (label: string, input: HTMLInputElement) => el('label', {}, label, input)
export const field = (label: string, props: Props) => labelled(label, el('input', props))
export const passwordField = (label: string, props: Props) =>
  field(label, { type: 'password', name: 'password', required: true, ...props })

type Values = Readonly<Record<string, string>>

/** A form that shows errors and cannot be submitted twice at once. */
export function form(send: (values: Values) => unknown, ...children: Child[]): HTMLFormElement {
  const alert = alertLine()
  const onsubmit = (event: Event) => {
    event.preventDefault()
    const values = Object.fromEntries([...new FormData(node)].map(([name, value]) => [name, String(value)]))
    void attempt([...node.querySelectorAll('button')], alert, () => send(values))
  }
  const node = el('form', { onsubmit }, ...children, alert)
  return node
}

/** The submit button of a form. */
export const submit = (label: string) => el('button', {}, label)

/** A button with its own action. */
export function button(label: string, work: () => unknown, kind: 'main' | 'plain' | 'quiet' | 'danger' = 'plain') {
  const ownAlert = el('span', { role: 'alert' })
  const onclick = () => void attempt([node], alertNear(node, ownAlert), work)
  const node: HTMLButtonElement = el('button', { type: 'button', class: kind, onclick }, label)
  return node
}

/** The alert of the surrounding form or section, else one after the button. */
function alertNear(node: HTMLElement, otherwise: HTMLElement): HTMLElement {
  const found = node.closest('form, section, dialog')?.querySelector<HTMLElement>('[role=alert]')
  if (!found) node.after(otherwise)
  return found ?? otherwise
}

async function attempt(waiting: HTMLButtonElement[], alert: HTMLElement, work: () => unknown): Promise<void> {
  alert.textContent = ''
  for (const one of waiting) one.disabled = true
  try {
    await work()
  } catch (error) {
    alert.textContent = messageOf(error)
  } finally {
    for (const one of waiting) one.disabled = false
  }
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
