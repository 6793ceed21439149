-- What pages of one company look for is found by an index, and says nothing of who works for the operator.

-- Its refused and failed requests: without the company, everybody's were read. Those without a company are not in it.
create index request_trail_company_wrong on request_trail (company_id, occurred_at, request_id)
  where (status >= 400 or code is not null) and company_id <> '00000000-0000-0000-0000-000000000000';

-- Its people and tokens, present and former.
create index audit_log_people on audit_log (company_id) where subject in ('users', 'admin_tokens');

-- Addresses of all who are or were people of a company, and its tokens, as the audit log names them.
create function people_ever(company uuid) returns setof text language sql stable set search_path from current as $$
  select email from users where company_id = company
  union
  select case subject when 'users' then coalesce(after, before) ->> 'email' else 'token ' || (coalesce(after, before) ->> 'name') end
  from audit_log where company_id = company and subject in ('users', 'admin_tokens')
$$;

-- Everybody who sees the name of a key would see the address of an operator in it.
alter table api_keys disable trigger open_only; -- keys of closed companies too
update api_keys set name = 'Playground of operator'
where purpose = 'playground' and name = 'Playground of ' || created_by and (created_by in (select people_ever(company_id))) is not true;
alter table api_keys enable trigger open_only;
