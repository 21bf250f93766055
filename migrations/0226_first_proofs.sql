-- A link back to an address that was not verified when the account left it: whoever opens it is the first to prove that address.
alter table svc.mail_tokens add column is_first_proof boolean not null default false;
