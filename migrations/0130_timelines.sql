-- The timelines on which this database took writes. A server notes the one it finds before it writes: after a promotion or a
-- restore the numbers of the change log go on far above everything that the timeline before may have given out and lost, so a
-- position names its timeline, and one that was lost with it is never mistaken for one that came later. The random part tells
-- two restores of one backup apart, whose timelines have the same number.
create table svc.timelines (
  home text not null,
  timeline bigint not null,
  began_at timestamptz not null default now(),
  primary key (home, timeline)
);

create function svc.note_timeline(now_on bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from svc.timelines where home = svc.change_home() and timeline = now_on) then
    return false;
  end if;
  insert into svc.timelines (home, timeline) values (svc.change_home(), now_on) on conflict do nothing;
  if not found or not exists (select from svc.timelines where (home, timeline) <> (svc.change_home(), now_on)) then
    return false;
  end if;
  perform setval('svc.change_log_id_seq',
    (select last_value from svc.change_log_id_seq) + (1::bigint << 30) + floor(random() * (1 << 28))::bigint);
  return true;
end $$;
revoke all on function svc.note_timeline(bigint) from public;
