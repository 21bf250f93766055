-- The three challenges of ten minutes are a sign-in's own: the mails of enrolments count for themselves.
alter table svc.mfa_limits add column enrolment_mails timestamptz[] not null default '{}';
