import { useParams } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { post, remove, send, sentence, svc } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { session } from '../../api/session.ts'
import { Link, useAddress } from '../../app/navigate.tsx'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, bytes, moment, plural, visible } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { failed, toast } from '../../parts/toast.tsx'
import { Button, Empty, Loaded, Snippet } from '../../parts/ui.tsx'
import { download } from '../table/rows/export.tsx'

type File_ = {
  id: string
  name: string
  size: number
  contentType: string
  userId: string | null
  createdAt: string
  updatedAt: string
}
type Answer = { items: File_[]; totalItems: number }
type Upload = { name: string; sent: number; total: number }

const objectPath = (bucket: string, name: string): string =>
  `/api/storage/${encodeURIComponent(bucket)}/${name.split('/').map(encodeURIComponent).join('/')}`

/** With the bytes that have gone, which fetch does not tell. */
const upload = (bucket: string, name: string, file: File, onSent: (sent: number) => void): Promise<void> =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', `/api/storage/${encodeURIComponent(bucket)}`)
    request.setRequestHeader('authorization', `Bearer ${session.get().token}`)
    request.upload.onprogress = ({ loaded }) => onSent(loaded)
    request.onerror = () => reject(new Error('the connection was lost'))
    request.onload = () => {
      if (request.status < 300) return resolve()
      const answer = svc.core.parse(request.responseText || '{}') as { message?: string }
      reject(new Error(answer.message ?? `status ${request.status}`))
    }
    const form = new FormData()
    form.append('name', name)
    form.append('file', file)
    request.send(form)
  })

export default function BucketPage() {
  const { bucket = '' } = useParams({ strict: false }) as { bucket?: string }
  const [{ folder = '', file: opened, after }, go] = useAddress()
  const path = `/api/storage/${encodeURIComponent(bucket)}`
  const list = useApi<Answer>(path, { prefix: folder || undefined, limit: 500, after })
  const [uploads, setUploads] = useState<readonly Upload[]>([])
  const [isDropping, setDropping] = useState(false)
  const drop = useAction((name: string) => remove(objectPath(bucket, name)), {
    done: 'The file is gone',
    changes: [path],
  })

  async function send_(files: readonly File[]): Promise<void> {
    for (const file of files) {
      const name = folder + file.name
      const update = (sent: number): void =>
        setUploads((before) => [...before.filter((one) => one.name !== name), { name, sent, total: file.size }])
      update(0)
      try {
        await upload(bucket, name, file, update)
      } catch (error) {
        toast(`${name}: ${sentence(error)}`, { bad: true })
      }
      setUploads((before) => before.filter((one) => one.name !== name))
    }
    await changed(path)
    toast(`${plural(files.length, 'file')} uploaded`)
  }
  const pick = (): void => {
    const input = document.createElement('input')
    input.type = 'file'
    input.multiple = true
    input.onchange = () => void send_([...(input.files ?? [])])
    input.click()
  }
  const parts = folder.split('/').filter(Boolean)
  return (
    <Page
      title={bucket}
      crumb={
        <Link to="/storage" className="crumb">
          Storage /
        </Link>
      }
      actions={
        <Button look="primary" icon="upload" onClick={pick}>
          Upload
        </Button>
      }
      note="Drop files anywhere on this page to upload them."
    >
      <div
        className={isDropping ? 'panel drop' : 'panel'}
        onDragOver={(event) => {
          event.preventDefault()
          setDropping(true)
        }}
        onDragLeave={() => setDropping(false)}
        onDrop={(event) => {
          event.preventDefault()
          setDropping(false)
          void send_([...event.dataTransfer.files])
        }}
      >
        <nav className="row" aria-label="Folder">
          <Link to={`/storage/${encodeURIComponent(bucket)}`}>{bucket}</Link>
          {parts.map((part, index) => (
            <span key={parts.slice(0, index + 1).join('/')}>
              /{' '}
              <Link
                to={`/storage/${encodeURIComponent(bucket)}`}
                search={{ folder: `${parts.slice(0, index + 1).join('/')}/` }}
              >
                {part}
              </Link>
            </span>
          ))}
        </nav>
        {uploads.map(({ name, sent, total }) => (
          <label key={name} className="row">
            <span className="grow">{name}</span>
            <progress value={sent} max={total || 1} />
          </label>
        ))}
        <Loaded of={list}>
          {({ items, totalItems }) => {
            const folders = [
              ...new Set(items.flatMap(({ name }) => /^[^/]+\//.exec(name.slice(folder.length))?.[0] ?? [])),
            ]
            const files = items.filter(({ name }) => !name.slice(folder.length).includes('/'))
            if (items.length === 0) return <Empty title="There is no file here" icon="folder" />
            return (
              <>
                <ul className="row">
                  {folders.map((name) => (
                    <li key={name}>
                      <Link
                        to={`/storage/${encodeURIComponent(bucket)}`}
                        search={{ folder: folder + name }}
                        className="button"
                      >
                        <Icon name="folder" /> {name}
                      </Link>
                    </li>
                  ))}
                </ul>
                <List
                  label="Files"
                  items={files}
                  keyOf={({ id }) => id}
                  cells={[
                    [
                      'Name',
                      ({ name }) => (
                        <button type="button" className="field-value" onClick={() => go({ file: name })}>
                          <strong className="isolate">{visible(name.slice(folder.length))}</strong>
                        </button>
                      ),
                    ],
                    ['Type', ({ contentType }) => <span className="isolate">{visible(contentType)}</span>],
                    ['Size', ({ size }) => bytes(size), 'num'],
                    ['Changed', ({ updatedAt }) => <span title={moment(updatedAt)}>{ago(updatedAt)}</span>, 'nowrap'],
                    [
                      '',
                      ({ name }) => (
                        <Button
                          look="quiet small"
                          icon="trash"
                          aria-label={`Delete ${name}`}
                          onClick={async () => {
                            if (await confirm({ title: 'Delete this file?', text: name, yes: 'Delete' })) drop.run(name)
                          }}
                        />
                      ),
                      'end',
                    ],
                  ]}
                />
                <p className="muted row">
                  {plural(totalItems, 'file')}
                  {items.length === 500 && (
                    <Button look="small" onClick={() => go({ after: items.at(-1)?.name })}>
                      Next
                    </Button>
                  )}
                  {after && (
                    <Button look="small" onClick={() => go({ after: undefined })}>
                      From the beginning
                    </Button>
                  )}
                </p>
              </>
            )
          }}
        </Loaded>
      </div>
      {opened && (
        <FileDialog
          bucket={bucket}
          name={opened}
          file={list.data?.items.find(({ name }) => name === opened)}
          onClose={() => go({ file: undefined })}
        />
      )}
    </Page>
  )
}

const PREVIEWED = 5_000_000

function FileDialog({
  bucket,
  name,
  file,
  onClose,
}: {
  bucket: string
  name: string
  file: File_ | undefined
  onClose(): void
}) {
  const path = objectPath(bucket, name)
  const [link, setLink] = useState('')
  const [asks, setAsks] = useState(false)
  const [preview, setPreview] = useState<{ url?: string; text?: string }>({})
  const read = async (): Promise<Blob> => (await send<Response>('GET', path, { as: 'response' })).blob()
  const { contentType = '', size = 0 } = file ?? {}
  useEffect(() => {
    const isImage = /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(contentType)
    if (size > PREVIEWED || !(isImage || /^text\/|json|xml|javascript/.test(contentType))) return
    let url = ''
    let isOver = false
    send<Response>('GET', path, { as: 'response' })
      .then(async (response) => {
        const blob = await response.blob()
        if (isOver) return
        if (isImage) url = URL.createObjectURL(blob)
        setPreview(isImage ? { url } : { text: (await blob.text()).slice(0, 20_000) })
      })
      .catch(failed)
    return () => {
      isOver = true
      if (url) URL.revokeObjectURL(url)
    }
  }, [path, contentType, size])
  return (
    <Dialog title={name} look="side-panel" onClose={onClose}>
      {file && (
        <dl className="facts">
          <dt>Type</dt>
          <dd className="isolate">{visible(file.contentType)}</dd>
          <dt>Size</dt>
          <dd>{bytes(file.size)}</dd>
          <dt>Owner</dt>
          <dd>{file.userId ? <Link to={`/users/${file.userId}`}>{file.userId}</Link> : 'nobody'}</dd>
          <dt>Changed</dt>
          <dd>{moment(file.updatedAt)}</dd>
        </dl>
      )}
      {preview.url && <img className="preview" src={preview.url} alt={`Preview of ${name}`} />}
      {preview.text !== undefined && <Snippet label="Content" text={preview.text} wrap />}
      <div className="row">
        <Button icon="link" onClick={() => setAsks(true)}>
          Signed link
        </Button>
        <Button
          icon="download"
          onClick={() => void read().then((blob) => download(blob, name.split('/').at(-1) ?? name), failed)}
        >
          Download
        </Button>
      </div>
      {link && <Snippet label="Signed link" text={link} wrap />}
      {asks && (
        <FormDialog
          title="Signed link"
          yes="Make the link"
          fields={[
            {
              name: 'seconds',
              label: 'Good for',
              type: 'select',
              options: [
                ['3600', 'an hour'],
                ['86400', 'a day'],
                ['604800', 'a week'],
              ],
            },
          ]}
          onClose={() => setAsks(false)}
          onSubmit={async ({ seconds }) => {
            const { url } = await post<{ url: string }>(`${path}/sign`, { expiresIn: Number(seconds) })
            setLink(new URL(url, location.origin).href)
          }}
        />
      )}
    </Dialog>
  )
}
