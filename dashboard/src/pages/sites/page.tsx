import { useState } from 'react'
import { post, put, remove, send } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { useAddress } from '../../app/navigate.tsx'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, bytes, count, plural, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { failed, toast } from '../../parts/toast.tsx'
import { Badge, Button, Empty, Loaded, Snippet } from '../../parts/ui.tsx'

type Site = { id: string; name: string; slug: string; spaMode: boolean; liveDeployId?: string; createdAt: string }
type Deploy = {
  id: string
  status: string
  fileCount: number
  totalBytes: number
  errorMessage?: string
  createdAt: string
}

const PATH = '/api/admin/sites'
const LOOKS: Record<string, 'ok' | 'danger' | 'info' | ''> = { live: 'ok', failed: 'danger', uploading: 'info' }

const addressOf = (slug: string): string =>
  `${location.protocol}//${slug}.${location.hostname === '127.0.0.1' ? 'localhost' : location.hostname}${location.port && `:${location.port}`}`

export default function SitesPage() {
  const [{ site: opened }, go] = useAddress()
  const sites = useApi<{ sites: Site[] }>(PATH)
  const [edited, setEdited] = useState<Site | 'new' | null>(null)
  const drop = useAction((id: string) => remove(`${PATH}/${id}`), { done: 'The site is gone', changes: [PATH] })
  const current = sites.data?.sites.find(({ id }) => id === opened)
  return (
    <Page
      title="Sites"
      actions={
        <Button look="primary" icon="plus" onClick={() => setEdited('new')}>
          New site
        </Button>
      }
    >
      <Loaded of={sites}>
        {({ sites: items }) =>
          items.length === 0 ? (
            <Empty title="There is no site yet" icon="globe">
              <p>A site is a folder of files, each deploy whole, with a way back.</p>
            </Empty>
          ) : (
            <List
              label="Sites"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                [
                  'Name',
                  (site) => (
                    <button type="button" className="field-value" onClick={() => go({ site: site.id })}>
                      <strong className="isolate">{visible(site.name)}</strong>
                    </button>
                  ),
                ],
                [
                  'Address',
                  ({ slug }) => (
                    <a href={addressOf(slug)} target="_blank" rel="noreferrer">
                      {addressOf(slug)}
                    </a>
                  ),
                ],
                [
                  'State',
                  ({ liveDeployId }) =>
                    liveDeployId ? <Badge look="ok">live</Badge> : <Badge>nothing deployed</Badge>,
                ],
                ['Made', ({ createdAt }) => ago(createdAt), 'nowrap'],
                [
                  '',
                  (site) => (
                    <span className="row">
                      <Button look="small" onClick={() => go({ site: site.id })}>
                        Deploys
                      </Button>
                      <MenuButton
                        label={`More of ${site.name}`}
                        look="quiet small"
                        icon="more"
                        items={[
                          { label: 'Edit', icon: 'edit', run: () => setEdited(site) },
                          {
                            label: 'Delete',
                            icon: 'trash',
                            danger: true,
                            run: async () => {
                              if (
                                await confirm({
                                  title: `Delete ${site.name}?`,
                                  text: 'With deploys and files.',
                                  name: site.slug,
                                  yes: 'Delete site',
                                })
                              )
                                drop.run(site.id)
                            },
                          },
                        ]}
                      />
                    </span>
                  ),
                  'end',
                ],
              ]}
            />
          )
        }
      </Loaded>
      {edited && (
        <FormDialog
          title={edited === 'new' ? 'New site' : `Site ${edited.name}`}
          yes="Save"
          fields={[
            { name: 'name', label: 'Name', required: true, value: edited === 'new' ? '' : edited.name },
            ...(edited === 'new'
              ? [{ name: 'slug', label: 'First part of the address', required: true, placeholder: 'shop' } as const]
              : []),
            {
              name: 'spaMode',
              label: 'One page: unknown paths are index.html',
              type: 'check',
              value: edited !== 'new' && edited.spaMode,
            },
          ]}
          onClose={() => setEdited(null)}
          onSubmit={async (values) => {
            await (edited === 'new' ? post(PATH, values) : put(`${PATH}/${edited.id}`, values))
            await changed(PATH)
            toast('Saved')
          }}
        />
      )}
      {current && <Deploys site={current} onClose={() => go({ site: undefined })} />}
    </Page>
  )
}

function Deploys({ site, onClose }: { site: Site; onClose(): void }) {
  const path = `${PATH}/${site.id}/deploys`
  const deploys = useApi<{ deploys: Deploy[] }>(path, {}, { every: 5_000 })
  const [progress, setProgress] = useState('')
  const changes = [PATH]
  const promote = useAction((id: string) => post(`${path}/${id}/promote`), { done: 'It is live', changes })
  const rollback = useAction(() => post(`${path}/rollback`), { done: 'The deploy before is live again', changes })

  async function deploy(files: readonly File[]): Promise<void> {
    try {
      const { id } = await post<Deploy>(path)
      for (const [index, file] of files.entries()) {
        setProgress(`${index + 1} of ${plural(files.length, 'file')}`)
        const form = new FormData()
        // Within the folder that was chosen.
        form.append('name', file.webkitRelativePath.split('/').slice(1).join('/') || file.name)
        form.append('file', file)
        await send('POST', `${path}/${id}/files`, { body: form }, { timeout: 300_000 })
      }
      await post(`${path}/${id}/promote`)
      toast(`${plural(files.length, 'file')} deployed`)
    } catch (error) {
      failed(error)
    } finally {
      setProgress('')
      await changed(PATH)
    }
  }
  const pick = (): void => {
    const input = document.createElement('input')
    input.type = 'file'
    input.webkitdirectory = true
    input.onchange = () => void deploy([...(input.files ?? [])])
    input.click()
  }
  return (
    <Dialog title={`Deploys of ${site.name}`} look="side-panel" onClose={onClose}>
      <div className="row">
        <Button look="primary" icon="upload" busy={progress !== ''} onClick={pick}>
          {progress || 'Deploy a folder'}
        </Button>
        <Button
          icon="undo"
          onClick={async () => {
            if (
              await confirm({
                title: 'Roll back?',
                text: 'The deploy that was live before is live again.',
                yes: 'Roll back',
              })
            )
              rollback.run()
          }}
        >
          Roll back
        </Button>
      </div>
      <Snippet label="From the shell" text={`svc sites deploy ./dist --site ${site.slug}`} />
      <Loaded of={deploys}>
        {({ deploys: items }) => (
          <ul className="panel">
            {items.length === 0 && <li className="muted">Nothing is deployed yet.</li>}
            {items.map((item) => (
              <li key={item.id} className="card">
                <div className="row">
                  <Badge look={LOOKS[item.status] ?? ''}>{item.status}</Badge>
                  <span className="grow">
                    {count(item.fileCount)} files, {bytes(Number(item.totalBytes))}, {ago(item.createdAt)}
                  </span>
                  {(item.status === 'superseded' || item.status === 'uploading') && (
                    <Button look="small" onClick={() => promote.run(item.id)}>
                      Make live
                    </Button>
                  )}
                </div>
                {item.errorMessage && <p className="code-del">{item.errorMessage}</p>}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Dialog>
  )
}
