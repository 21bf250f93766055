import { rfc3339, type Sql, sql } from '../../db/sql.ts'

const SITE = sql`json_strip_nulls(json_build_object('id', s.id, 'name', s.name, 'slug', s.slug, 'spaMode', s.spa_mode,
  'liveDeployId', (select d.id from svc.site_deploys d where d.site_id = s.id and d.status = 'live'),
  'createdAt', ${rfc3339(sql`s.created_at`)}, 'updatedAt', ${rfc3339(sql`s.updated_at`)}))`

const DEPLOY = sql`json_strip_nulls(json_build_object('id', d.id, 'siteId', d.site_id, 'status', d.status,
  'fileCount', d.file_count, 'totalBytes', d.total_bytes, 'errorMessage', d.error_message,
  'createdAt', ${rfc3339(sql`d.created_at`)}, 'updatedAt', ${rfc3339(sql`d.updated_at`)}))`

type Page = { page: number; perPage: number; offset: number }

export const sitesPage = ({ page, perPage, offset }: Page): Sql => sql`
  select json_build_object('sites', (
      select coalesce(json_agg(${SITE} order by s.created_at desc, s.id desc), '[]') from (
        select * from svc.sites order by created_at desc, id desc limit ${perPage}::int offset ${offset}::bigint) s
    ), 'totalCount', (select count(*) from svc.sites), 'page', ${page}::int, 'perPage', ${perPage}::int)::text`

export const oneSite = (id: string): Sql => sql`select ${SITE}::text from svc.sites s where s.id = ${id}::uuid`

/** No row when the slug is taken. */
export const addSite = (site: { name: string; slug: string; spaMode: boolean }): Sql => sql`
  insert into svc.sites as s (name, slug, spa_mode) values (${site.name}, ${site.slug}, ${site.spaMode})
  on conflict (slug) do nothing returning ${SITE}::text as record`

export const changeSite = (id: string, change: { name: string | null; spaMode: boolean | null }): Sql => sql`
  update svc.sites s set name = coalesce(${change.name}, s.name), spa_mode = coalesce(${change.spaMode}::boolean, s.spa_mode),
    updated_at = now()
  where s.id = ${id}::uuid returning ${SITE}::text as record`

export const deleteSite = (id: string): Sql => sql`delete from svc.sites where id = ${id}::uuid returning id`

/** Locks the site, to serialise changes of its live deploy. */
export const lockSite = (id: string): Sql => sql`select from svc.sites where id = ${id}::uuid for update`

/** {exists, body} */
export const deploysPage = (siteId: string, { page, perPage, offset }: Page): Sql => sql`
  select exists (select from svc.sites where id = ${siteId}::uuid) as exists, json_build_object('deploys', (
      select coalesce(json_agg(${DEPLOY} order by d.created_at desc, d.id desc), '[]') from (
        select * from svc.site_deploys where site_id = ${siteId}::uuid
        order by created_at desc, id desc limit ${perPage}::int offset ${offset}::bigint) d
    ), 'totalCount', (select count(*) from svc.site_deploys where site_id = ${siteId}::uuid),
    'page', ${page}::int, 'perPage', ${perPage}::int)::text as body`

/** {exists, deploy}: whether the site exists, and its deploy as JSON text. */
export const oneDeploy = (siteId: string, id: string): Sql => sql`
  select exists (select from svc.sites where id = ${siteId}::uuid) as exists,
    (select ${DEPLOY}::text from svc.site_deploys d where d.id = ${id}::uuid and d.site_id = ${siteId}::uuid) as deploy`

/** No row when there is no such site. */
export const addDeploy = (siteId: string): Sql => sql`
  insert into svc.site_deploys as d (site_id) select id from svc.sites where id = ${siteId}::uuid for key share
  returning ${DEPLOY}::text as record`

export const lockDeploy = (siteId: string, id: string): Sql =>
  sql`select status from svc.site_deploys where id = ${id}::uuid and site_id = ${siteId}::uuid for update`

export const supersedeLive = (siteId: string): Sql => sql`
  update svc.site_deploys set status = 'superseded', superseded_at = clock_timestamp(), updated_at = now()
  where site_id = ${siteId}::uuid and status = 'live'`

export const makeLive = (id: string): Sql => sql`
  update svc.site_deploys d set status = 'live', superseded_at = null, updated_at = now()
  where d.id = ${id}::uuid returning ${DEPLOY}::text`

export const lastSuperseded = (siteId: string): Sql => sql`
  select id::text as id from svc.site_deploys where site_id = ${siteId}::uuid and status = 'superseded'
  order by superseded_at desc limit 1`

export const failDeploy = (id: string, errorMessage: string | null): Sql => sql`
  update svc.site_deploys d set status = 'failed', error_message = ${errorMessage}, updated_at = now()
  where d.id = ${id}::uuid and d.status = 'uploading' returning ${DEPLOY}::text`

export const putSiteFile = (deployId: string, file: { path: string; contentType: string; blobId: string }): Sql => sql`
  insert into svc.site_files (deploy_id, path, content_type, blob_id)
  values (${deployId}::uuid, ${file.path}, ${file.contentType}, ${file.blobId}::uuid)
  on conflict (deploy_id, path) do update set content_type = excluded.content_type, blob_id = excluded.blob_id`

/** Adds a file to the deploy's counts, and subtracts the file that it replaces. */
export const countFile = (deployId: string, path: string, size: number): Sql => sql`
  update svc.site_deploys d set updated_at = now(),
    file_count = d.file_count + 1 - (select count(*) from svc.site_files f where f.deploy_id = d.id and f.path = ${path}),
    total_bytes = d.total_bytes + ${size}::bigint - coalesce((
      select b.size from svc.site_files f join svc.blobs b on b.id = f.blob_id
      where f.deploy_id = d.id and f.path = ${path}), 0)
  where d.id = ${deployId}::uuid returning ${DEPLOY}::text`

export type Listed = { path: string; sha256: string; contentType: string }

/**
 * Reuses the bytes of files that another deploy of the site has, and returns the paths that are still missing. The
 * files are array parameters, so a thousand of them are one statement.
 */
export const adoptFiles = (siteId: string, deployId: string, files: readonly Listed[]): Sql => sql`
  with wanted as (
    select * from unnest(${files.map(({ path }) => path)}::text[], ${files.map(({ sha256 }) => sha256)}::text[],
      ${files.map(({ contentType }) => contentType)}::text[]) as w(path, sha256, content_type)
  ), known as (
    select distinct on (b.sha256) b.sha256, b.id from svc.blobs b
    join svc.site_files f on f.blob_id = b.id join svc.site_deploys d on d.id = f.deploy_id
    where d.site_id = ${siteId}::uuid and b.sha256 in (select sha256 from wanted)
  ), adopted as (
    insert into svc.site_files (deploy_id, path, content_type, blob_id)
    select ${deployId}::uuid, w.path, w.content_type, k.id from wanted w join known k on k.sha256 = w.sha256
    on conflict (deploy_id, path) do update set content_type = excluded.content_type, blob_id = excluded.blob_id
    returning path
  )
  select coalesce(json_agg(w.path order by w.path), '[]')::text as missing from wanted w
  where w.path not in (select path from adopted)`

export const recount = (deployId: string): Sql => sql`
  update svc.site_deploys d set updated_at = now(), file_count = t.files, total_bytes = t.bytes
  from (select count(*) as files, coalesce(sum(b.size), 0) as bytes
        from svc.site_files f join svc.blobs b on b.id = f.blob_id where f.deploy_id = ${deployId}::uuid) t
  where d.id = ${deployId}::uuid returning ${DEPLOY}::text`

export type ServedFile = {
  path: string
  contentType: string
  blobId: string
  size: number
  sha256: string
  spaMode: boolean
  promotedAt: Date
}

/** Those of `paths` that the live deploy of a site has. */
export const liveFiles = (slug: string, paths: readonly string[]): Sql => sql`
  select f.path, f.content_type as "contentType", f.blob_id::text as "blobId", b.size, b.sha256,
    s.spa_mode as "spaMode", d.updated_at as "promotedAt"
  from svc.sites s join svc.site_deploys d on d.site_id = s.id and d.status = 'live'
  join svc.site_files f on f.deploy_id = d.id and f.path = any(${paths}::text[])
  join svc.blobs b on b.id = f.blob_id
  where s.slug = ${slug}`
