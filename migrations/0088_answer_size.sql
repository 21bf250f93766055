-- Adds up the bytes of an answer beside the aggregate that builds it, and raises as soon as they are more than 64 MiB, so that
-- PostgreSQL never builds what nobody may receive. The sum is a date and adding to it is PostgreSQL's own C function, which
-- refuses what is after the last date it has: a function in another language would take as long for each row as the rest of
-- the list. src/db/rows/answer-size.ts has the other half.
create aggregate svc.answer_bytes(integer) (
  sfunc = pg_catalog.date_pli,
  stype = date,
  -- 64 * 2^20 days before 5874897-12-31.
  initcond = '5691160-03-04'
);
