import { type FormEvent, type ReactNode, StrictMode, Suspense, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { ApiError, createClient, type Row } from 'savanna-client'
import { SvcProvider, useClient, useList, useUser } from 'savanna-client/react'
import type { Database } from '../database.ts'

declare module 'savanna-client/react' {
  interface Register {
    database: Database
  }
}

type Task = Row<Database, 'tasks'>

const url = new URLSearchParams(location.search).get('server') ?? 'http://localhost:8090'
const svc = createClient<Database>(url)

/** Runs what a person asked for, and says why it did not work. */
function useAttempt(): [alert: ReactNode, attempt: (work: () => Promise<unknown>) => Promise<void>] {
  const [problem, setProblem] = useState('')
  const attempt = async (work: () => Promise<unknown>) => {
    setProblem('')
    try {
      await work()
    } catch (error) {
      const isLong = error instanceof ApiError && error.is('check_violation', 'tasks_title_check')
      setProblem(isLong ? 'A task has 1 to 200 letters.' : (error as Error).message)
    }
  }
  return [problem && <p role="alert">{problem}</p>, attempt]
}

function SignIn() {
  const { auth } = useClient()
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [alert, attempt] = useAttempt()
  const signIn = (event: FormEvent) => {
    event.preventDefault()
    void attempt(async () => {
      const { mfa } = await auth.login({ email, password })
      if (mfa) await mfa.totp(prompt('The code of your authenticator app') ?? '')
    })
  }
  return (
    <form onSubmit={signIn}>
      <input
        type="email"
        placeholder="Email"
        value={email}
        onChange={({ target }) => setEmail(target.value)}
        required
      />
      <input
        type="password"
        placeholder="Password"
        value={password}
        onChange={({ target }) => setPassword(target.value)}
        required
      />
      <button type="submit">Sign in</button>
      <button type="button" onClick={() => attempt(() => auth.register({ email, password }))}>
        Sign up
      </button>
      {alert}
    </form>
  )
}

function Attachment({ task }: { task: Task }) {
  const client = useClient()
  const files = client.storage.bucket('tasks')
  const [progress, setProgress] = useState('📎')
  const [alert, attempt] = useAttempt()
  const { file } = task
  if (file !== null) {
    const open = () => attempt(async () => window.open(await files.signedUrl(file)))
    return (
      <button type="button" onClick={open}>
        {file.split('/').at(-1)}
      </button>
    )
  }
  const attach = (chosen: File | undefined) =>
    attempt(async () => {
      if (!chosen) return
      const onProgress = (sent: number, total: number) => setProgress(`${Math.round((100 * sent) / total)} %`)
      const { name } = await files.upload(`${task.id}/${chosen.name}`, chosen, { onProgress })
      await client.from('tasks').update(task.id, { file: name })
    })
  return (
    <label title="Attach a file">
      {progress}
      <input type="file" hidden onChange={({ target }) => attach(target.files?.[0])} />
      {alert}
    </label>
  )
}

function Item({ task }: { task: Task }) {
  const tasks = useClient().from('tasks')
  const isMine = useUser()?.id === task.owner
  const [alert, attempt] = useAttempt()
  return (
    <li className={task.done ? 'done' : ''}>
      <input
        type="checkbox"
        title="Done"
        checked={task.done}
        onChange={({ target }) => attempt(() => tasks.update(task.id, { done: target.checked }))}
      />
      <span>{task.title}</span>
      <Attachment task={task} />
      {isMine && (
        <button type="button" title="Delete" onClick={() => attempt(() => tasks.delete(task.id))}>
          ×
        </button>
      )}
      {alert}
    </li>
  )
}

function Tasks() {
  const { auth, from } = useClient()
  const user = useUser()
  // Read again when somebody changes a task, here or anywhere.
  const { data } = useList('tasks', { sort: 'id', perPage: 500 }, { live: true, suspense: true })
  const [title, setTitle] = useState('')
  const [alert, attempt] = useAttempt()
  const add = (event: FormEvent) => {
    event.preventDefault()
    void attempt(async () => {
      await from('tasks').create({ title })
      setTitle('')
    })
  }
  return (
    <main>
      <p>
        {user?.email}{' '}
        <button type="button" onClick={() => attempt(() => auth.logout())}>
          Sign out
        </button>
      </p>
      <form onSubmit={add}>
        <input
          type="text"
          placeholder="What is to be done?"
          value={title}
          onChange={({ target }) => setTitle(target.value)}
          required
        />
        <button type="submit">Add</button>
      </form>
      {alert}
      <ul>
        {data.items.map((task) => (
          <Item key={String(task.id)} task={task} />
        ))}
      </ul>
    </main>
  )
}

const App = () => (
  <>
    <h1>To do, together</h1>
    {useUser() ? (
      <Suspense fallback={<p>…</p>}>
        <Tasks />
      </Suspense>
    ) : (
      <SignIn />
    )}
  </>
)

createRoot(document.querySelector('#app') as HTMLElement).render(
  <StrictMode>
    <SvcProvider client={svc}>
      <App />
    </SvcProvider>
  </StrictMode>,
)
