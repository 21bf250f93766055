import { useParams } from '@tanstack/react-router'
import { useSchema } from '../../api/schema.ts'
import { Link, tablePath, useAddress } from '../../app/navigate.tsx'
import { ViewAsButton } from '../../app/view-as-banner.tsx'
import { Page } from '../../parts/page.tsx'
import { Empty, ErrorLine, Loading, TabPanel, Tabs } from '../../parts/ui.tsx'
import { RowSecurity } from '../tables/page.tsx'
import { ApiTab } from './api-tab.tsx'
import { ChangeList } from './change-list.tsx'
import { PoliciesTab } from './policies-tab.tsx'
import { RowsTab } from './rows/rows-tab.tsx'
import { Structure } from './structure.tsx'

const TABS = [
  ['rows', 'Rows'],
  ['structure', 'Structure'],
  ['policies', 'Policies'],
  ['history', 'History'],
  ['api', 'API'],
] as const

export default function TablePage() {
  const { name = '' } = useParams({ strict: false }) as { name?: string }
  const [{ tab = 'rows' }, go] = useAddress()
  const { schema, error } = useSchema()
  const table = schema?.tables.get(name)
  const current = TABS.find(([id]) => id === tab)?.[0] ?? 'rows'
  const crumb = (
    <Link to="/tables" className="crumb">
      Tables /
    </Link>
  )
  if (!table) {
    return (
      <Page title={name} crumb={crumb}>
        <ErrorLine error={error} />
        {!schema && !error && <Loading />}
        {schema && (
          <Empty title="There is no such table" icon="table">
            <p>
              It may have been dropped or renamed, or lies outside of the exposed schemas ({schema.schemas.join(', ')}).
            </p>
            <Link to="/tables" className="button">
              All tables
            </Link>
          </Empty>
        )}
      </Page>
    )
  }
  return (
    <Page
      key={name}
      title={name}
      look={current === 'rows' ? 'full' : 'narrow'}
      crumb={crumb}
      badge={<RowSecurity table={table} />}
      actions={<ViewAsButton />}
      note={
        table.comment && (
          <span className="clamp" title={table.comment}>
            {table.comment}
          </span>
        )
      }
    >
      <Tabs
        label="Table"
        tabs={TABS}
        current={current}
        onChange={(id) => go({ tab: id === 'rows' ? undefined : id })}
      />
      <TabPanel name={current} className={current === 'rows' ? 'grid-frame' : 'panel'}>
        {current === 'rows' && <RowsTab name={name} table={table} />}
        {current === 'structure' && <Structure name={name} table={table} path={tablePath(name)} />}
        {current === 'policies' && <PoliciesTab name={name} table={table} />}
        {current === 'history' && (
          <ChangeList path="/api/admin/changes" query={{ table: `${table.schema}.${table.name}` }} />
        )}
        {current === 'api' && <ApiTab name={name} table={table} />}
      </TabPanel>
    </Page>
  )
}
