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
