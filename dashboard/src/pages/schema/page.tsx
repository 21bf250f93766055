import { lazy, Suspense } from 'react'
import { useSchema } from '../../api/schema.ts'
import { Find } from '../../app/find.tsx'
import { Link, useAddress } from '../../app/navigate.tsx'
import { Page } from '../../parts/page.tsx'
import { Empty, ErrorLine, Loading } from '../../parts/ui.tsx'

const Diagram = lazy(() => import('./diagram.tsx'))

export default function SchemaPage() {
  const { schema, error } = useSchema()
  const [{ find = '' }] = useAddress()
  return (
    <Page title="Schema" look="full" actions={<Find label="Find a table" />}>
      <ErrorLine error={error} />
      {!schema && !error && <Loading />}
      {schema && schema.tables.size === 0 && (
        <Empty title="There is no table yet" icon="schema">
          <Link to="/tables" search={{ new: '1' }} className="button">
            New table
          </Link>
        </Empty>
      )}
      {schema && schema.tables.size > 0 && (
        <Suspense fallback={<Loading />}>
          <Diagram schema={schema} find={find} />
        </Suspense>
      )}
    </Page>
  )
}
