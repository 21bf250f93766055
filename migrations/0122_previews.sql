-- Rendered mails that an administrator looks at in a tab: each is read once, within a minute.
create table svc.mail_previews (
  id_hash text primary key,
  html text not null,
  expires_at timestamptz not null
);

-- The whole body of a delivery whose first part is in request_body, so that it can be sent again; null where that is all of it.
alter table svc.webhook_deliveries add column whole_body text;
