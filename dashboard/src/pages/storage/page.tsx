import { useState } from 'react'
import { post, put, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { Link } from '../../app/navigate.tsx'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { bytes, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Empty, Loaded } from '../../parts/ui.tsx'

type Bucket = {
  /** Missing where a bucket has no settings: files can be put into any. */
  id?: string
  name: string
  access: 'public' | 'private' | 'policies'
  inline: boolean
  quota_bytes?: number | null
  max_size?: number | null
  allowed_types?: string[] | null
}

const PATH = '/api/admin/storage/buckets'
const ACCESS = {
  public: <Badge look="warn">everybody</Badge>,
  private: <Badge look="ok">known callers</Badge>,
  policies: <Badge look="info">by policies</Badge>,
}

export default function StoragePage() {
  const buckets = useApi<{ items: Bucket[]; without_settings: string[] }>(PATH)
  const [edited, setEdited] = useState<Bucket | 'new' | null>(null)
  const drop = useAction((name: string) => remove(`${PATH}/${encodeURIComponent(name)}`, { force: true }), {
    done: 'The bucket is gone',
    changes: [PATH],
  })
  async function deleteBucket(name: string): Promise<void> {
    const isYes = await confirm({
      title: `Delete bucket ${name}?`,
      text: 'With all its files.',
      name,
      yes: 'Delete bucket',
    })
    if (isYes) drop.run(name)
  }
  const newBucket = (
    <Button look="primary" icon="plus" onClick={() => setEdited('new')}>
      New bucket
    </Button>
  )
  return (
    <Page title="Storage" actions={newBucket}>
      <Loaded of={buckets}>
        {({ items: set, without_settings }) => {
          const plain = without_settings.map((name): Bucket => ({ name, access: 'public', inline: false }))
          const items = [...set, ...plain].sort((a, b) => (a.name < b.name ? -1 : 1))
          return items.length === 0 ? (
            <Empty title="There is no bucket yet" icon="folder">
              <p>A bucket holds files, public or for known callers, with links that end by themselves.</p>
              {newBucket}
            </Empty>
          ) : (
            <List
              label="Buckets"
              items={items}
              keyOf={({ name }) => name}
              cells={[
                [
                  'Name',
                  ({ name }) => (
                    <Link to={`/storage/${encodeURIComponent(name)}`}>
                      <span className="isolate">{visible(name)}</span>
                    </Link>
                  ),
                ],
                ['Who reads', ({ access }) => ACCESS[access]],
                [
                  'Scripts',
                  ({ inline }) => (inline ? <Badge look="info">shown inline</Badge> : <Badge>as attachments</Badge>),
                ],
                ['At most', ({ quota_bytes }) => (quota_bytes == null ? '–' : bytes(Number(quota_bytes))), 'num'],
                ['A file', ({ max_size }) => (max_size == null ? '–' : bytes(Number(max_size))), 'num'],
                [
                  '',
                  (bucket) => (
                    <MenuButton
                      label={`More of ${bucket.name}`}
                      look="quiet small"
                      icon="more"
                      items={[
                        { label: 'Rights and limits', icon: 'edit', run: () => setEdited(bucket) },
                        ...(bucket.id === undefined
                          ? []
                          : [
                              {
                                label: 'Delete',
                                icon: 'trash',
                                danger: true,
                                run: () => void deleteBucket(bucket.name),
                              } as const,
                            ]),
                      ]}
                    />
                  ),
                  'end',
                ],
              ]}
            />
          )
        }}
      </Loaded>
      {edited && <BucketForm bucket={edited === 'new' ? null : edited} onClose={() => setEdited(null)} />}
    </Page>
  )
}

const numberOf = (value: unknown): number | null => (value === '' || value === undefined ? null : Number(value))

function BucketForm({ bucket, onClose }: { bucket: Bucket | null; onClose(): void }) {
  return (
    <FormDialog
      title={bucket ? `Bucket ${bucket.name}` : 'New bucket'}
      yes={bucket ? 'Save' : 'Create'}
      fields={[
        ...(bucket ? [] : [{ name: 'name', label: 'Name', required: true, hint: 'a–z, 0–9, _ and -' } as const]),
        {
          name: 'access',
          label: 'Who reads',
          type: 'select',
          value: bucket?.access ?? 'private',
          options: [
            ['private', 'known callers, their own'],
            ['public', 'everybody'],
            ['policies', 'policies on svc.objects decide'],
          ],
        },
        {
          name: 'inline',
          label: 'Show scripts and pages inline instead of as attachments',
          type: 'check',
          value: bucket?.inline ?? false,
        },
        {
          name: 'quota',
          label: 'Bytes of all its files',
          type: 'number',
          value: String(bucket?.quota_bytes ?? ''),
          placeholder: 'no limit',
        },
        {
          name: 'size',
          label: 'Bytes of a file',
          type: 'number',
          value: String(bucket?.max_size ?? ''),
          placeholder: 'as the server',
        },
        {
          name: 'types',
          label: 'Types',
          value: bucket?.allowed_types?.join(', ') ?? '',
          placeholder: 'all, or image/*, application/pdf',
        },
      ]}
      onClose={onClose}
      onSubmit={async ({ name, access, inline, quota, size, types }) => {
        const allowed = String(types ?? '')
          .split(/[\s,]+/)
          .filter(Boolean)
        const limits = {
          quota_bytes: numberOf(quota),
          max_size: numberOf(size),
          allowed_types: allowed.length > 0 ? allowed : null,
        }
        const set = Object.fromEntries(
          Object.entries(limits).filter(([, value]) => bucket?.id !== undefined || value !== null),
        )
        if (bucket?.id !== undefined)
          await put(`${PATH}/${encodeURIComponent(bucket.name)}`, { access, inline, ...set })
        else await post(PATH, { name: bucket?.name ?? name, access, inline, ...set })
        await changed(PATH)
        toast(bucket ? 'Saved' : 'The bucket is there')
      }}
    />
  )
}
