import { useState } from 'react'
import { post, put, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { Link } from '../../app/navigate.tsx'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Empty, Loaded } from '../../parts/ui.tsx'

type Bucket = { name: string; public: boolean; inline: boolean }
const PATH = '/api/admin/storage/buckets'

export default function StoragePage() {
  const buckets = useApi<{ items: Bucket[] }>(PATH)
  const [isNew, setNew] = useState(false)
  const save = useAction(({ name, ...settings }: Bucket) => put(`${PATH}/${encodeURIComponent(name)}`, settings), {
    done: 'Saved',
    changes: [PATH],
  })
  const drop = useAction((name: string) => remove(`${PATH}/${encodeURIComponent(name)}`, { force: true }), {
    done: 'The bucket is gone',
    changes: [PATH],
  })
  return (
    <Page
      title="Storage"
      actions={
        <Button look="primary" icon="plus" onClick={() => setNew(true)}>
          New bucket
        </Button>
      }
    >
      <Loaded of={buckets}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no bucket yet" icon="folder">
              <p>A bucket holds files, public or for known callers, with links that end by themselves.</p>
              <Button look="primary" icon="plus" onClick={() => setNew(true)}>
                New bucket
              </Button>
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
                      <span className="isolate">{name}</span>
                    </Link>
                  ),
                ],
                [
                  'Who reads',
                  (bucket) =>
                    bucket.public ? <Badge look="warn">everybody</Badge> : <Badge look="ok">known callers</Badge>,
                ],
                [
                  'Scripts',
                  (bucket) => (bucket.inline ? <Badge look="info">shown inline</Badge> : <Badge>as attachments</Badge>),
                ],
                [
                  '',
                  (bucket) => (
                    <MenuButton
                      label={`More of ${bucket.name}`}
                      look="quiet small"
                      icon="more"
                      items={[
                        {
                          label: bucket.public ? 'Make private' : 'Make public',
                          icon: bucket.public ? 'lock' : 'unlock',
                          run: () => save.run({ ...bucket, public: !bucket.public }),
                        },
                        {
                          label: bucket.inline ? 'Send as attachments' : 'Show inline',
                          icon: 'eye',
                          run: () => save.run({ ...bucket, inline: !bucket.inline }),
                        },
                        '-',
                        {
                          label: 'Delete',
                          icon: 'trash',
                          danger: true,
                          run: async () => {
                            if (
                              await confirm({
                                title: `Delete bucket ${bucket.name}?`,
                                text: 'With all its files.',
                                name: bucket.name,
                                yes: 'Delete bucket',
                              })
                            )
                              drop.run(bucket.name)
                          },
                        },
                      ]}
                    />
                  ),
                  'end',
                ],
              ]}
            />
          )
        }
      </Loaded>
      {isNew && (
        <FormDialog
          title="New bucket"
          yes="Create"
          fields={[
            { name: 'name', label: 'Name', required: true, hint: 'a–z, 0–9, _ and -' },
            { name: 'public', label: 'Everybody may read', type: 'check' },
          ]}
          onClose={() => setNew(false)}
          onSubmit={async (values) => {
            await post(PATH, values)
            await changed(PATH)
            toast('The bucket is there')
          }}
        />
      )}
    </Page>
  )
}
