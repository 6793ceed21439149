-- Groups of the identity provider give roles.
create table oidc_groups (
  id         uuid primary key default gen_random_uuid(),
  name       text not null check (name <> '' and length(name) <= 200),
  company_id uuid references companies on delete cascade,
  role       text not null check (role in ('operator', 'owner', 'administrator', 'member')),
  created_at timestamptz not null default now(),
  unique (name),
  check ((role = 'operator') = (company_id is null))
);
comment on column oidc_groups.name is 'as the claim of the provider has it, compared byte by byte';
create index oidc_groups_company on oidc_groups (company_id);

alter table users add column oidc_group text references oidc_groups (name) on update cascade on delete cascade;
alter table users add constraint users_by_group check (oidc_group is null or password_hash is null);
comment on column users.oidc_group is 'the group of the identity provider that gives the role; null: somebody gave it by hand';
create index users_oidc_group on users (oidc_group) where oidc_group is not null;

create function change_people_of_group() returns trigger language plpgsql set search_path from current as $$
begin
  if new.company_id is distinct from old.company_id then
    delete from users where oidc_group in (old.name, new.name);
  else
    update users set role = new.role where oidc_group in (old.name, new.name);
  end if;
  return null;
end $$;
create trigger change_people after update of company_id, role on oidc_groups
  for each row when (old.company_id is distinct from new.company_id or old.role <> new.role)
  execute function change_people_of_group();

drop trigger audit on users;
create trigger audit after insert or delete or update of id, email, company_id, role, password_hash, created_at, oidc_group
  on users for each row execute function audit_row();
create trigger audit after insert or update or delete on oidc_groups for each row execute function audit_row();
create trigger audit_truncate after truncate on oidc_groups for each statement execute function audit_truncate();
drop trigger open_only on users;
create trigger open_only before insert or delete or update of email, company_id, role, oidc_group on users
  for each row execute function refuse_closed();
create trigger open_only before insert or update or delete on oidc_groups for each row execute function refuse_closed();

alter table oidc_groups enable row level security;
create policy own on oidc_groups using (is_visible(company_id));
insert into personal_data (table_name, column_name, kind, word) values
  ('users', 'oidc_group', 'text', null),
  ('oidc_groups', 'name', 'name', 'group'),
  ('oidc_groups', '', 'row', null);
insert into tenant_grants values
  ('select (oidc_group) on users'),
  ('select on oidc_groups');
select raise_tenant_wall();

-- the function as it is, but for the order of the tables
do $do$
begin
  execute replace(pg_get_functiondef('erase_company(uuid, boolean)'::regprocedure),
    'group by p.table_name, p.company order by p.table_name = ''companies'', p.table_name',
    $order$group by p.table_name, p.company
    order by p.table_name = 'companies', p.table_name = 'oidc_groups', p.table_name -- its rows would take users with them, uncounted$order$);
end $do$;
