-- The key of a playground is its person's: it ends when the person is removed, gets another address or goes to another
-- company. Whoever comes back allows it anew. With the rights of the owner: who removes somebody may see no keys, and those
-- of an operator are in all companies.
create function end_playground_keys() returns trigger language plpgsql security definer set search_path from current as $$
begin
  update api_keys k set revoked_at = now() from companies c
  where c.id = k.company_id and c.closed_at is null
    and k.purpose = 'playground' and k.revoked_at is null and k.created_by = old.email
    and not exists (select from users u where u.email = k.created_by and coalesce(u.company_id, k.company_id) = k.company_id);
  return null;
end $$;
create trigger end_playground_keys after delete or update of email, company_id on users
  for each row execute function end_playground_keys();

-- of those who left before
update api_keys k set revoked_at = now() from companies c
where c.id = k.company_id and c.closed_at is null and k.purpose = 'playground' and k.revoked_at is null
  and not exists (select from users u where u.email = k.created_by and coalesce(u.company_id, k.company_id) = k.company_id);
