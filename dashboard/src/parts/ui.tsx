import type { UseQueryResult } from '@tanstack/react-query'
import { type ButtonHTMLAttributes, type ReactNode, useId, useState } from 'react'
import { ApiError, sentence } from '../api/client.ts'
import { visible } from './format.ts'
import { Icon, type IconName } from './icon.tsx'
import { Meaning } from './meaning.tsx'
import { toast } from './toast.tsx'

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: string
  icon?: IconName
  busy?: boolean
}

export function Button({ look = '', icon, busy = false, children, disabled, ...rest }: ButtonProps) {
  const square = children === undefined ? ' square' : ''
  return (
    <button type="button" {...rest} disabled={disabled || busy} className={`button ${look}${square}`}>
      {busy ? <Icon name="refresh" /> : icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

export function ErrorLine({ error }: { error: unknown }) {
  if (!error) return null
  return (
    <p className="error-line" role="alert">
      <Icon name="warn" />
      <span>
        {sentence(error)} <Meaning error={error} />
      </span>
    </p>
  )
}

export function Note({ children, warn = false }: { children: ReactNode; warn?: boolean }) {
  return (
    <div className={warn ? 'note warn' : 'note'}>
      <Icon name={warn ? 'warn' : 'info'} />
      <div>{children}</div>
    </div>
  )
}

export function Empty({ title, children, icon }: { title: string; children?: ReactNode; icon?: IconName }) {
  return (
    <div className="empty">
      {icon && <Icon name={icon} size={28} />}
      <strong>{title}</strong>
      {children}
    </div>
  )
}

export const Loading = () => (
  <p className="loading">
    <Icon name="refresh" /> Loading…
  </p>
)

const isOff = (error: unknown): error is ApiError =>
  error instanceof ApiError && (error.is('feature_disabled') || error.is('service_disabled'))

/** Not a failure: what to do about it. */
function SwitchedOff({ error }: { error: ApiError }) {
  const { message } = error
  return (
    <Empty title={`${message.charAt(0).toUpperCase()}${message.slice(1)}`} icon="settings">
      <p>It is switched on in svc.toml or the environment; the server reads them when it starts.</p>
      <a className="button" href="/admin/settings?find=enabled">
        Settings that switch things on
      </a>
    </Empty>
  )
}

/** An answer once it is there; before it a line, and a line when it fails. */
export function Loaded<T>({ of, children }: { of: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  return (
    <>
      {isOff(of.error) ? <SwitchedOff error={of.error} /> : <ErrorLine error={of.error} />}
      {of.data === undefined ? of.error ? null : <Loading /> : children(of.data)}
    </>
  )
}

type FieldProps = {
  label: string
  hint?: ReactNode
  children: (props: { id: string; 'aria-describedby'?: string }) => ReactNode
}

export function Field({ label, hint, children }: FieldProps) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, ...(hint ? { 'aria-describedby': `${id}-hint` } : {}) })}
      {hint && (
        <span className="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  )
}

export function Check(props: {
  label: ReactNode
  checked: boolean
  onChange(checked: boolean): void
  disabled?: boolean
}) {
  return (
    <label className="check">
      <input
        type="checkbox"
        checked={props.checked}
        disabled={props.disabled}
        onChange={(event) => props.onChange(event.target.checked)}
      />
      <span>{props.label}</span>
    </label>
  )
}

export const Badge = ({
  children,
  look = '',
}: {
  children: ReactNode
  look?: 'ok' | 'warn' | 'danger' | 'info' | ''
}) => <span className={`badge ${look}`}>{children}</span>

export async function copyText(text: string, what = 'Copied'): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    toast(what)
  } catch {
    toast('The browser did not allow copying.', { bad: true })
  }
}

export function Snippet({ text, label, wrap = false }: { text: string; label: string; wrap?: boolean }) {
  return (
    <div className="snippet">
      <pre className={wrap ? 'wrap' : ''} tabIndex={0} aria-label={label} role="region">
        {visible(text)}
      </pre>
      <Button look="quiet small" icon="copy" aria-label={`Copy ${label}`} title="Copy" onClick={() => copyText(text)} />
    </div>
  )
}

/** Several forms of the same thing, to be copied. */
export function Snippets({
  label,
  forms,
}: {
  label: string
  forms: readonly (readonly [name: string, text: string])[]
}) {
  const [chosen, choose] = useState(0)
  const current = forms[Math.min(chosen, forms.length - 1)]
  return (
    <div className="panel">
      <div className="row" role="group" aria-label={label}>
        {forms.map(([name], index) => (
          <Button key={name} look="small" aria-pressed={index === chosen} onClick={() => choose(index)}>
            {name}
          </Button>
        ))}
      </div>
      {current && <Snippet label={`${label} (${current[0]})`} text={current[1]} />}
    </div>
  )
}

type TabsProps<Name extends string> = {
  label: string
  tabs: readonly (readonly [name: Name, title: string])[]
  current: Name
  onChange(name: Name): void
}

export function Tabs<Name extends string>({ label, tabs, current, onChange }: TabsProps<Name>) {
  const move = (step: number): void => {
    const index = tabs.findIndex(([name]) => name === current)
    const next = tabs[(index + step + tabs.length) % tabs.length]
    if (!next) return
    onChange(next[0])
    document.getElementById(`tab-${next[0]}`)?.focus()
  }
  return (
    <div className="tabs" role="tablist" aria-label={label}>
      {tabs.map(([name, title]) => (
        <button
          key={name}
          id={`tab-${name}`}
          type="button"
          role="tab"
          aria-selected={name === current}
          tabIndex={name === current ? 0 : -1}
          onClick={() => onChange(name)}
          onKeyDown={(event) => {
            if (event.key === 'ArrowRight') move(1)
            if (event.key === 'ArrowLeft') move(-1)
          }}
        >
          {title}
        </button>
      ))}
    </div>
  )
}

export const TabPanel = ({
  name,
  children,
  className = 'panel',
}: {
  name: string
  children: ReactNode
  className?: string
}) => (
  <div role="tabpanel" aria-labelledby={`tab-${name}`} className={className}>
    {children}
  </div>
)
