-- Marks a link back to an address that was not verified when the account left it: opening the link is the first proof of that address.
alter table svc.mail_tokens add column is_first_proof boolean not null default false;
