-- People who came over with a password whose hash cannot be checked here: who tries to sign in is mailed a link that sets a
-- new one.
create table svc.lost_passwords (
  user_id   uuid primary key references svc.users on delete cascade,
  mailed_at timestamptz
);
