-- Keys of members: how far a company allows them, and whose key it is.
alter table companies add column member_max_keys integer not null default 0 check (member_max_keys between 0 and 100);
alter table companies add column member_key_budget_eur numeric
  check (member_key_budget_eur > 0 and member_key_budget_eur < 1e12 and min_scale(member_key_budget_eur) <= 15);
alter table companies add column member_playground boolean not null default false;
comment on column companies.member_max_keys is 'how many active keys of their own each member may have; those that exist stay when it is lowered';
comment on column companies.member_key_budget_eur is 'the most that the monthly budget of such a key may be when it is made; null: none, the budget of the company holds';
comment on column companies.member_playground is 'whether members may use the playground';
alter table api_keys add column user_id uuid; -- no foreign key: the trigger below has to find the key of somebody who is removed
comment on column api_keys.user_id is 'the person whose key it is: it ends with them; null: of the company, or of a playground';
create index api_keys_user on api_keys (user_id) where user_id is not null;

-- with the right to call it as before
alter trigger end_playground_keys on users rename to end_keys_of_person;
alter function end_playground_keys() rename to end_keys_of_person;
-- A key that is a person's ends when the person is removed or goes to another company; that of a playground also when the
-- person gets another address, and whoever comes back allows it anew. With the rights of the owner: who removes somebody
-- may see no keys, and those of an operator are in all companies.
create or replace function end_keys_of_person() returns trigger language plpgsql security definer set search_path from current as $$
begin
  update api_keys k set revoked_at = now() from companies c
  where c.id = k.company_id and c.closed_at is null
    and k.purpose = 'playground' and k.revoked_at is null and k.created_by = old.email
    and not exists (select from users u where u.email = k.created_by and coalesce(u.company_id, k.company_id) = k.company_id);
  -- of a closed company people are removed by an erasure alone; it may be reopened
  update api_keys k set revoked_at = now() from companies c
  where c.id = k.company_id and (c.closed_at is null or is_erasing())
    and k.user_id = old.id and k.revoked_at is null
    and not exists (select from users u where u.id = k.user_id and u.company_id = k.company_id);
  return null;
end $$;

insert into tenant_grants (privilege) values
  ('update (member_max_keys, member_key_budget_eur, member_playground) on companies'), ('select (user_id) on api_keys');
select raise_tenant_wall();
