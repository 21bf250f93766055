-- Devices that people signed in with; see auth.new_device_mail.
create table svc.known_devices (
  user_id uuid not null references svc.users (id) on delete cascade,
  -- A hash of the family of the user agent and the network.
  device text not null,
  seen_at timestamptz not null default now(),
  primary key (user_id, device)
);

-- Failures of an address over all accounts: after three a login asks for a captcha.
create index login_failures_ip on svc.login_failures (ip) where ip <> '*';
