create table tasks (
  id bigint generated always as identity primary key,
  owner uuid not null default svc.uid(),
  title text not null check (length(title) between 1 and 200),
  done boolean not null default false,
  file text
);
alter table tasks enable row level security;
create policy read on tasks for select to svc_authenticated using (true);
create policy add on tasks for insert to svc_authenticated with check (owner = svc.uid());
create policy change on tasks for update to svc_authenticated using (true) with check (true);
create policy remove on tasks for delete to svc_authenticated using (owner = svc.uid());
