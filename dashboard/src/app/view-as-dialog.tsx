import { useState } from 'react'
import { get } from '../api/client.ts'
import { useApi } from '../api/hooks.ts'
import { startViewAs, type Who } from '../api/view-as.ts'
import { Combobox } from '../parts/combobox.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { failed } from '../parts/toast.tsx'
import { Button, Check, ErrorLine, Field } from '../parts/ui.tsx'
import { confirmWriteAs } from './view-as-confirm.ts'

type User = { id: string; email: string }
type Key = { id: string; name: string; keyPrefix: string; revokedAt: string | null }

const KINDS = [
  ['visitor', 'Visitor', 'without a token'],
  ['user', 'User', 'an account'],
  ['key', 'API key', 'with its scope and tables'],
  ['claims', 'Claims', 'an account that need not exist'],
] as const

export function ViewAsDialog({ onClose }: { onClose(): void }) {
  const [kind, setKind] = useState<(typeof KINDS)[number][0]>('visitor')
  const [user, setUser] = useState<User | null>(null)
  const [keyId, setKeyId] = useState('')
  const [claims, setClaims] = useState('{"sub": "00000000-0000-0000-0000-000000000001", "email": "ana@example.com"}')
  const [write, setWrite] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const keys = useApi<{ items: Key[] }>(kind === 'key' ? '/api/admin/api-keys' : null, { perPage: 100 })
  const usable = keys.data?.items.filter(({ revokedAt }) => !revokedAt) ?? []

  function chosen(): [Who, string] {
    if (kind === 'visitor') return [{ anonymous: true }, 'a visitor']
    if (kind === 'user') {
      if (!user) throw new Error('Choose a user.')
      return [{ user_id: user.id }, user.email || user.id]
    }
    if (kind === 'key') {
      const key = usable.find(({ id }) => id === (keyId || usable[0]?.id))
      if (!key) throw new Error('There is no key.')
      return [{ key_id: key.id }, `key ${key.name}`]
    }
    const parsed = JSON.parse(claims) as Record<string, unknown>
    return [{ claims: parsed }, String(parsed['email'] ?? parsed['sub'] ?? 'claims')]
  }
  async function start(): Promise<void> {
    try {
      const [who, label] = chosen()
      if (write && !(await confirmWriteAs(label))) return
      await startViewAs(who, label, write)
      onClose()
    } catch (failure) {
      setError(failure)
    }
  }
  return (
    <Dialog
      title="View as"
      onClose={onClose}
      onSubmit={() => void start()}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary">
            View
          </Button>
        </>
      }
    >
      <p className="muted">
        Tables, SQL and API show what this caller gets, by a token of its own. It stands in the audit.
      </p>
      <fieldset className="choices">
        <legend className="visually-hidden">Caller</legend>
        {KINDS.map(([name, title, hint]) => (
          <label key={name} className="choice">
            <input type="radio" name="kind" checked={kind === name} onChange={() => setKind(name)} />
            <span>{title}</span>
            <span className="hint">{hint}</span>
          </label>
        ))}
      </fieldset>
      {kind === 'user' && <UserBox user={user} onChange={setUser} />}
      {kind === 'key' && (
        <Field label="Key">
          {(props) => (
            <select className="input" {...props} value={keyId} onChange={(event) => setKeyId(event.target.value)}>
              {usable.map(({ id, name, keyPrefix }) => (
                <option key={id} value={id}>
                  {name} ({keyPrefix}…)
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
      {kind === 'claims' && (
        <Field label="Claims" hint="sub, email?, aal?; further ones are read by svc.claims().">
          {(props) => (
            <textarea
              className="input mono"
              rows={4}
              {...props}
              value={claims}
              onChange={(event) => setClaims(event.target.value)}
            />
          )}
        </Field>
      )}
      <Check label="Write as this caller too" checked={write} onChange={setWrite} />
      <ErrorLine error={error} />
    </Dialog>
  )
}

/** A user by part of the address. */
export function UserBox({
  user,
  onChange,
  label = 'User',
}: {
  user: User | null
  onChange(user: User): void
  label?: string
}) {
  return (
    <Combobox<User>
      label={label}
      placeholder="Part of the address"
      value={user ? user.email || user.id : ''}
      find={async (search) => {
        try {
          return (await get<{ items: User[] }>('/api/admin/users', { search, perPage: 20 })).items
        } catch (error) {
          failed(error)
          return []
        }
      }}
      keyOf={({ id }) => id}
      show={({ email, id }) => email || id}
      onChoose={onChange}
    />
  )
}
