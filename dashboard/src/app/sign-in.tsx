import { type FormEvent, useState } from 'react'
import { ApiError, sentence, svc } from '../api/client.ts'
import { signedIn } from '../api/session.ts'
import { Button, Field } from '../parts/ui.tsx'
import { Brand } from './brand.tsx'
import { hasPasskeys, signInByPasskey } from './passkey.ts'

type Answer = { token: string }

/** With the shared password, or the address and password of an administrator, and the code of a second factor. */
export function SignIn({ again = false }: { again?: boolean }) {
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const [isNamed, setNamed] = useState(false)
  const [needsCode, setNeedsCode] = useState(false)
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault()
    setBusy(true)
    setError('')
    const body = { ...(isNamed && { email }), password, ...(needsCode && { code: code.trim() }), client: 'dashboard' }
    try {
      const { token } = await svc.core.send<Answer>('POST', '/api/admin/auth', { body, token: null })
      setPassword('')
      signedIn(token)
    } catch (failure) {
      const isCode = failure instanceof ApiError && failure.error === 'mfa_required'
      if (isCode) setNeedsCode(true)
      setError(isCode && !needsCode ? 'Type the code of your authenticator app.' : sentence(failure))
    } finally {
      setBusy(false)
    }
  }

  async function byPasskey(): Promise<void> {
    setError('')
    try {
      signedIn(await signInByPasskey())
    } catch (failure) {
      setError(sentence(failure))
    }
  }

  return (
    <main className="sign-in">
      <form onSubmit={(event) => void submit(event)}>
        <Brand />
        <h1>Sign in</h1>
        {again && <p className="muted">Your session has ended. What you typed is kept behind this page.</p>}
        {isNamed && (
          <Field label="Address">
            {(props) => (
              <input
                className="input"
                type="email"
                autoComplete="username"
                required
                {...props}
                value={email}
                onChange={(event) => setEmail(event.target.value)}
              />
            )}
          </Field>
        )}
        <Field label="Password">
          {(props) => (
            <input
              className="input"
              type="password"
              autoComplete="current-password"
              autoFocus
              required
              {...props}
              value={password}
              onChange={(event) => setPassword(event.target.value)}
            />
          )}
        </Field>
        {needsCode && (
          <Field label="Code">
            {(props) => (
              <input
                className="input"
                inputMode="numeric"
                autoComplete="one-time-code"
                autoFocus
                required
                {...props}
                value={code}
                onChange={(event) => setCode(event.target.value)}
              />
            )}
          </Field>
        )}
        {error && (
          <p className="error-line" role="alert">
            {error}
          </p>
        )}
        <Button type="submit" look="primary" busy={busy}>
          Sign in
        </Button>
        <Button look="quiet" onClick={() => setNamed(!isNamed)}>
          {isNamed ? 'Use the server’s password instead' : 'Use your own account instead'}
        </Button>
        {isNamed && hasPasskeys() && (
          <Button icon="key" onClick={() => void byPasskey()}>
            Use a passkey
          </Button>
        )}
        <p className="muted">
          On the server’s machine <code>svc open</code> opens this page signed in; <code>svc admin reset-password</code>{' '}
          makes a new password.
        </p>
      </form>
    </main>
  )
}
