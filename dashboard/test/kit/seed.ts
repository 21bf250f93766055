/** A shop with people in it, for journeys and screenshots: several relations, policies, types, files and webhooks. */
export const SHOP = `
create type order_state as enum ('new', 'paid', 'sent', 'returned');
create table customers (
  id bigint generated always as identity primary key,
  name text not null,
  email text unique not null,
  country text not null default 'KE',
  vip boolean not null default false,
  notes jsonb,
  tags text[],
  created_at timestamptz not null default now()
);
create table products (
  id bigint generated always as identity primary key,
  sku text unique not null,
  title text not null,
  price numeric(10, 2) not null check (price >= 0),
  stock integer not null default 0,
  embedding real[]
);
create table orders (
  id bigint generated always as identity primary key,
  customer_id bigint not null references customers on delete cascade,
  state order_state not null default 'new',
  total numeric(12, 2) not null default 0,
  note text,
  placed_at timestamptz not null default now()
);
create table order_items (
  order_id bigint references orders on delete cascade,
  line integer,
  product_id bigint not null references products,
  quantity integer not null default 1 check (quantity > 0),
  primary key (order_id, line)
);
create table notes (
  id bigint generated always as identity primary key,
  title text not null,
  body text,
  pinned boolean not null default false,
  owner uuid not null default svc.uid() references svc.users (id) on delete cascade,
  created_at timestamptz not null default now()
);
create view revenue as
  select c.country, count(*) as orders, sum(o.total) as total from orders o join customers c on c.id = o.customer_id group by 1;
comment on table orders is 'What people bought';
comment on column customers.vip is 'Gets answers first';
create index on orders (customer_id);
alter table customers enable row level security;
alter table orders enable row level security;
alter table order_items enable row level security;
alter table notes enable row level security;
alter table products enable row level security;
create policy everybody_reads on products for select using (true);
create policy own_notes on notes to svc_authenticated using (owner = svc.uid()) with check (owner = svc.uid());
create policy own_orders on orders for select to svc_authenticated
  using (customer_id in (select c.id from customers c where c.email = svc.email()));
create policy own_customer on customers for select to svc_authenticated using (email = svc.email());
insert into customers (name, email, country, vip, notes, tags)
  select (array['Amina','Bakari','Chiku','Dalila','Eshe','Faraji','Gathoni','Hamisi','Imani','Jabari'])[1 + i % 10] || ' ' ||
    (array['Otieno','Mwangi','Njeri','Kamau','Achieng','Kiptoo','Wanjiru','Abdi'])[1 + i % 8],
    'person' || i || '@example.com', (array['KE','TZ','UG','RW','ET'])[1 + i % 5], i % 7 = 0,
    case when i % 3 = 0 then jsonb_build_object('visits', i, 'likes', array['tea', 'coffee']) end,
    case when i % 2 = 0 then array['news', 'sale'] end
  from generate_series(1, 400) i;
insert into products (sku, title, price, stock, embedding)
  select 'SKU-' || lpad(i::text, 4, '0'), (array['Kikoi','Basket','Lantern','Kettle','Stool','Drum','Hammock','Bowl'])[1 + i % 8] || ' ' || i,
    round((5 + (i * 37 % 200))::numeric * 1.15, 2), i * 13 % 90, array[i % 7, i % 5, i % 3]::real[]
  from generate_series(1, 120) i;
insert into orders (customer_id, state, total, note, placed_at)
  select 1 + i * 7 % 400, (array['new','paid','sent','returned'])[1 + i % 4]::order_state, round((i * 17 % 500)::numeric * 1.31, 2),
    case when i % 9 = 0 then 'Leave at the gate' end, now() - make_interval(hours => i)
  from generate_series(1, 3000) i;
insert into order_items select 1 + i % 3000, 1 + i / 3000, 1 + i % 120, 1 + i % 4 from generate_series(0, 5999) i;
analyze;
select svc.watch('public.orders'), svc.watch('public.notes');
`

/** Three hundred tables with names that are no plain words; of them those with rows of their own to look at. */
export const ODD_TABLES = [
  '__proto__',
  'constructor',
  'a "quoted" name',
  'dots.in.it',
  'émoji 🦁',
  'x'.repeat(63),
  'every type',
  'two keys',
  'no key',
  'a view',
  'parted',
]
const quotedName = (name: string): string => `"${name.replaceAll('"', '""')}"`
export const ODD = `
do $$ begin for i in 1 .. 292 loop
  execute format('create table %I (id int primary key, %I text)', 'odd "table" no. ' || i || ' 🦁', 'co"lumn.' || i);
end loop; end $$;
${ODD_TABLES.slice(0, 6)
  .map((name) => `create table ${quotedName(name)} (id int primary key, ${quotedName(name)} text);`)
  .join('\n')}
${ODD_TABLES.slice(0, 6)
  .map((name) => `insert into ${quotedName(name)} values (1, 'of an odd table');`)
  .join('\n')}
create type odd_mood as enum ('glad', 'sad');
create type odd_pair as (a int, b text);
create domain odd_short as text check (length(value) < 20);
create table "every type" (id bigint primary key, word text, a smallint, b numeric, c real, d double precision, e boolean, f uuid, g date, h time,
  i timetz, j timestamp, k timestamptz, l interval, m json, n jsonb, o bytea, p inet, q cidr, r macaddr, s point, t int4range, u tsvector, v xml,
  w bit(3), x money, y odd_mood, z odd_pair, aa odd_short, ab int[], ac text[][], ad "char", ae oid, af pg_lsn, ag int4multirange, ah box);
insert into "every type" values (1, 'of an odd table', 1, 1.10, 1.5, 2.5, true, gen_random_uuid(), '2026-01-02', '03:04', '03:04+01', '2026-01-02 03:04',
  '2026-01-02 03:04+00', '1 day', '{"a": 1}', '{"b": [1]}', '\\x00ff', '10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', '(1,2)', '[1,5)', 'a b'::tsvector,
  '<a/>', b'101', 12.3, 'glad', (1, 'x'), 'short', '{1,2}', '{{a},{b}}', 'c', 1, '0/16B3748', '{[1,2)}', '(1,1),(0,0)');
create table "two keys" (a text, b text, word text, primary key (a, b));
insert into "two keys" values ('1,2', 'x/y', 'of an odd table');
create table "no key" (word text);
insert into "no key" values ('of an odd table');
create view "a view" as select word from "no key";
create table parted (id int, at date, word text, primary key (id, at)) partition by range (at);
create table parted_2026 partition of parted for values from ('2026-01-01') to ('2027-01-01');
insert into parted values (1, '2026-05-05', 'of an odd table')`
