-- Vector columns that the server keeps filled from text columns of the same table.
create table svc.embeddings (
  id               uuid primary key default gen_random_uuid(),
  schema_name      text not null,
  table_name       text not null,
  columns          text[] not null,
  vector_column    text not null,
  -- A whole pass over the table found nothing left to do; from then on changes are enough.
  filled           boolean not null default false,
  embedded         bigint not null default 0,
  -- Texts the provider does not want.
  refused          bigint not null default 0,
  last_error       text,
  last_embedded_at timestamptz,
  created_at       timestamptz not null default now(),
  unique (schema_name, table_name, vector_column)
);
