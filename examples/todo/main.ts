import { ApiError, createClient, type Row } from 'savanna-client'
import type { Database } from '../database.ts'

type Task = Row<Database, 'tasks'>

const url = new URLSearchParams(location.search).get('server') ?? 'http://localhost:8090'
const svc = createClient<Database>(url)
const tasks = svc.from('tasks')
const files = svc.storage.bucket('tasks')
const app = document.querySelector('#app') as HTMLElement

/** An element with properties and what is inside it. */
function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]> = {},
  ...inside: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties)
  element.append(...inside)
  return element
}

const alert = make('p')
alert.setAttribute('role', 'alert')

/** Runs what a person asked for, and says why it did not work. */
async function attempt(work: () => Promise<unknown>): Promise<void> {
  alert.textContent = ''
  try {
    await work()
  } catch (error) {
    const isLong = error instanceof ApiError && error.is('check_violation', 'tasks_title_check')
    alert.textContent = isLong ? 'A task has 1 to 200 letters.' : (error as Error).message
  }
}

// ---- Signed out ----

function signInForm(): HTMLElement {
  const email = make('input', { type: 'email', placeholder: 'Email', required: true, autocomplete: 'username' })
  const password = make('input', { type: 'password', placeholder: 'Password', required: true, minLength: 8 })
  const account = () => ({ email: email.value, password: password.value })
  const signUp = make('button', { type: 'button' }, 'Sign up')
  signUp.onclick = () => attempt(() => svc.auth.register(account()))
  const form = make('form', {}, email, password, make('button', {}, 'Sign in'), signUp)
  form.onsubmit = (event) => {
    event.preventDefault()
    void attempt(async () => {
      const { mfa } = await svc.auth.login(account())
      if (mfa) await mfa.totp(prompt('The code of your authenticator app') ?? '')
    })
  }
  return form
}

// ---- Signed in ----

/** What is on the screen, by key. */
const shown = new Map<Task['id'], Task>()
const list = make('ul')

function itemOf(task: Task): HTMLElement {
  const done = make('input', { type: 'checkbox', checked: task.done, title: 'Done' })
  done.onchange = () => attempt(() => tasks.update(task.id, { done: done.checked }))
  const item = make('li', { className: task.done ? 'done' : '' }, done, make('span', {}, task.title))
  if (task.file) item.append(fileLink(task.file))
  else item.append(filePicker(task))
  if (task.owner === svc.auth.session?.user.id) {
    const remove = make('button', { title: 'Delete' }, '×')
    remove.onclick = () => attempt(() => tasks.delete(task.id))
    item.append(remove)
  }
  return item
}

function filePicker(task: Task): HTMLElement {
  const input = make('input', { type: 'file', hidden: true })
  const label = make('label', { title: 'Attach a file' }, '📎', input)
  input.onchange = () =>
    attempt(async () => {
      const [file] = input.files ?? []
      if (!file) return
      const onProgress = (sent: number, total: number) => label.replaceChildren(`${Math.round((100 * sent) / total)} %`)
      const { name } = await files.upload(`${task.id}/${file.name}`, file, { onProgress })
      await tasks.update(task.id, { file: name })
    })
  return label
}

function fileLink(name: string): HTMLElement {
  const link = make('a', { href: '#' }, name.split('/').at(-1) ?? '')
  link.onclick = (event) => {
    event.preventDefault()
    void attempt(async () => open(await files.signedUrl(name)))
  }
  return link
}

function render(): void {
  const rows = [...shown.values()].sort((a, b) => Number(a.id) - Number(b.id))
  list.replaceChildren(...rows.map(itemOf))
}

async function read(): Promise<void> {
  const all = await Array.fromAsync(tasks.each())
  shown.clear()
  for (const task of all) shown.set(task.id, task)
  render()
}

function taskList(): HTMLElement {
  const title = make('input', { type: 'text', placeholder: 'What is to be done?', required: true })
  const form = make('form', {}, title, make('button', {}, 'Add'))
  form.onsubmit = (event) => {
    event.preventDefault()
    void attempt(async () => {
      await tasks.create({ title: title.value })
      title.value = ''
    })
  }
  const out = make('button', {}, 'Sign out')
  out.onclick = () => attempt(() => svc.auth.logout())
  return make('main', {}, make('p', {}, `${svc.auth.session?.user.email} `, out), form, list)
}

// ---- Which of the two ----

let user: string | undefined
let stop = (): void => {}

function show(): void {
  if (app.hasChildNodes() && user === svc.auth.session?.user.id) return
  user = svc.auth.session?.user.id
  stop()
  shown.clear()
  app.replaceChildren(make('h1', {}, 'To do, together'), alert, user ? taskList() : signInForm())
  if (!user) return
  stop = tasks.watch({
    onChange({ action, record }) {
      if (record.id === undefined) return
      if (action === 'delete') shown.delete(record.id)
      else shown.set(record.id, record as Task)
      render()
    },
    onReset: () => attempt(read),
    // From here on every change is heard, so what is read now is complete.
    onStatus: (status) => status === 'live' && attempt(read),
  })
}

svc.auth.onChange(show)
show()
