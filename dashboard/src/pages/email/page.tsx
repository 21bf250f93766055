import { useState } from 'react'
import { patch, post, put, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { useAddress } from '../../app/navigate.tsx'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { failed, toast } from '../../parts/toast.tsx'
import { Badge, Button, ErrorLine, Field, Loaded, Snippet } from '../../parts/ui.tsx'

type Listed = { templateKey: string; source: string; subjectTemplate: string; enabled: boolean }
type Template = Listed & { htmlTemplate: string; variables?: string[] }
type Rendered = { subject?: string; html?: string; text?: string; url?: string }

const PATH = '/api/admin/email/templates'

export default function EmailPage() {
  const [{ template: opened }, go] = useAddress()
  const [dialog, setDialog] = useState<'new' | 'send' | null>(null)
  const templates = useApi<{ items: Listed[] }>(PATH)
  return (
    <Page
      title="Email"
      actions={
        <>
          <Button icon="plus" onClick={() => setDialog('new')}>
            New template
          </Button>
          <Button look="primary" icon="mail" onClick={() => setDialog('send')}>
            Send a mail
          </Button>
        </>
      }
    >
      <Loaded of={templates}>
        {({ items }) => (
          <List
            label="Templates"
            items={items}
            keyOf={({ templateKey }) => templateKey}
            cells={[
              [
                'Template',
                ({ templateKey }) => (
                  <button type="button" className="field-value" onClick={() => go({ template: templateKey })}>
                    <strong>{templateKey}</strong>
                  </button>
                ),
              ],
              ['Subject', ({ subjectTemplate }) => <span className="isolate">{visible(subjectTemplate)}</span>],
              [
                'Source',
                ({ source, enabled }) =>
                  source === 'builtin' ? (
                    <Badge>built in</Badge>
                  ) : (
                    <Badge look={enabled ? 'info' : 'warn'}>{enabled ? 'yours' : 'yours, off'}</Badge>
                  ),
              ],
              [
                '',
                ({ templateKey }) => (
                  <Button look="small" icon="edit" onClick={() => go({ template: templateKey })}>
                    Open
                  </Button>
                ),
                'end',
              ],
            ]}
          />
        )}
      </Loaded>
      {opened && <TemplateDialog key={opened} name={opened} onClose={() => go({ template: undefined })} />}
      {dialog === 'new' && (
        <FormDialog
          title="New template"
          yes="Go on"
          fields={[
            {
              name: 'key',
              label: 'Key',
              required: true,
              placeholder: 'shop.receipt',
              hint: 'Dotted lower-case words.',
            },
          ]}
          onClose={() => setDialog(null)}
          onSubmit={async ({ key }) => {
            await put(`${PATH}/${encodeURIComponent(String(key))}`, {
              subjectTemplate: 'Hello {{Name}}',
              htmlTemplate: '<p>Hello {{Name}}</p>',
            })
            await changed(PATH)
            go({ template: String(key) })
          }}
        />
      )}
      {dialog === 'send' && (
        <FormDialog
          title="Send a mail"
          yes="Send"
          fields={[
            {
              name: 'templateKey',
              label: 'Template',
              type: 'select',
              options: (templates.data?.items ?? []).map(({ templateKey }) => [templateKey, templateKey] as const),
            },
            { name: 'to', label: 'To', type: 'email', required: true },
            {
              name: 'variables',
              label: 'Variables (JSON)',
              type: 'code',
              value: '{"AppName": "Savanna", "ActionURL": "https://example.com"}',
            },
          ]}
          onClose={() => setDialog(null)}
          onSubmit={async ({ templateKey, to, variables }) => {
            await post('/api/admin/email/send', { templateKey, to, variables: JSON.parse(String(variables)) })
            toast('Sent')
          }}
        />
      )}
    </Page>
  )
}

function TemplateDialog({ name, onClose }: { name: string; onClose(): void }) {
  const path = `${PATH}/${encodeURIComponent(name)}`
  const template = useApi<Template>(path)
  return (
    <Dialog title={name} look="wide" onClose={onClose}>
      <Loaded of={template}>
        {(data) => <TemplateForm key={data.htmlTemplate} path={path} template={data} onClose={onClose} />}
      </Loaded>
    </Dialog>
  )
}

function TemplateForm({ path, template, onClose }: { path: string; template: Template; onClose(): void }) {
  const [subject, setSubject] = useState(template.subjectTemplate)
  const [html, setHtml] = useState(template.htmlTemplate)
  const names = [...new Set([...`${subject} ${html}`.matchAll(/\{\{\.?(\w+)\}\}/g)].map(([, name = '']) => name))]
  const [values, setValues] = useState<Record<string, string>>({
    AppName: 'Savanna',
    ActionURL: 'https://example.com/verify?token=…',
    Code: '123456',
  })
  const [rendered, setRendered] = useState<Rendered | null>(null)
  const [error, setError] = useState<unknown>(null)
  const changes = [PATH]
  const save = useAction(() => put(path, { subjectTemplate: subject, htmlTemplate: html }), { done: 'Saved', changes })
  const toggle = useAction(() => patch(path, { enabled: !template.enabled }), { done: 'Done', changes })
  const drop = useAction(() => remove(path), { done: 'Back to the built-in one', changes })
  const body = {
    subjectTemplate: subject,
    htmlTemplate: html,
    variables: Object.fromEntries(names.map((name) => [name, values[name] ?? name])),
  }
  async function preview(isOpened: boolean): Promise<void> {
    setError(null)
    try {
      const answer = await post<Rendered>(`${path}/preview`, body)
      setRendered(answer)
      if (!isOpened) return
      if (answer.url) window.open(new URL(answer.url, location.origin), '_blank', 'noopener')
      else toast('This server cannot show the rendered mail.', { bad: true })
    } catch (failure) {
      setError(failure)
      failed(failure)
    }
  }
  return (
    <div className="form">
      <Field label="Subject">
        {(props) => (
          <input className="input" {...props} value={subject} onChange={(event) => setSubject(event.target.value)} />
        )}
      </Field>
      <Field label="HTML" hint="Placeholders are {{Name}}; values are escaped.">
        {(props) => (
          <textarea
            className="input mono"
            rows={12}
            spellCheck={false}
            {...props}
            value={html}
            onChange={(event) => setHtml(event.target.value)}
          />
        )}
      </Field>
      <fieldset className="row plain">
        <legend className="legend">Values for the preview</legend>
        {names.map((name) => (
          <Field key={name} label={name}>
            {(props) => (
              <input
                className="input"
                {...props}
                value={values[name] ?? ''}
                onChange={(event) => setValues({ ...values, [name]: event.target.value })}
              />
            )}
          </Field>
        ))}
      </fieldset>
      <ErrorLine error={error} />
      {rendered && (
        <>
          <dl className="facts">
            <dt>Subject</dt>
            <dd className="isolate">{visible(rendered.subject)}</dd>
          </dl>
          {rendered.text !== undefined && <Snippet label="Text" text={rendered.text} wrap />}
          {rendered.html !== undefined && <Snippet label="Source" text={rendered.html} wrap />}
        </>
      )}
      <div className="row">
        <Button onClick={() => void preview(false)}>Preview</Button>
        <Button icon="open" onClick={() => void preview(true)}>
          Open as a mail
        </Button>
        <span className="grow" />
        {template.source !== 'builtin' && (
          <>
            <Button onClick={() => toggle.run()}>{template.enabled ? 'Switch off' : 'Switch on'}</Button>
            <Button
              look="danger"
              onClick={async () => {
                if (
                  !(await confirm({
                    title: 'Delete your template?',
                    text: 'A built-in one takes its place, where there is one.',
                    yes: 'Delete',
                  }))
                )
                  return
                await drop.runAsync()
                onClose()
              }}
            >
              Delete
            </Button>
          </>
        )}
        <Button look="primary" busy={save.busy} onClick={() => save.run()}>
          Save
        </Button>
      </div>
    </div>
  )
}
