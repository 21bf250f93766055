-- Objects that no account owns are the operator's, who uploaded them with the admin token, or without owner. The two could
-- not be told apart so far: what was not stored for an app becomes the operator's, because the other way round would go on
-- giving the operator's files away.
alter table svc.storage_objects add column is_operators boolean not null default false;
update svc.storage_objects set is_operators = user_id is null and app_id is null,
  -- A star at the end of a path means every path to some caches.
  encoded_name = replace(encoded_name, '*', '%2A')
where (user_id is null and app_id is null) or encoded_name like '%*%';

-- Lists of private buckets: the caller's own objects, and those without owner.
create index storage_objects_readable on svc.storage_objects (bucket, user_id, name) where not is_operators;
