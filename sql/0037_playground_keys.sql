-- A person who tries a model on the pages does so with a key of their own in that company, whose text is minted anew
-- for some minutes and kept in the memory of the pages alone. So the ledger says who spent it.

alter table api_keys add column purpose text check (purpose = 'playground');
comment on column api_keys.purpose is 'null: for programs; playground: of the person in created_by, for trials on the pages';

-- one for each person, besides those that were revoked
create unique index api_keys_playground on api_keys (company_id, created_by)
  where purpose = 'playground' and revoked_at is null;

-- the digest may be replaced behind the wall, but still not be read
insert into tenant_grants (privilege) values ('select (purpose), update (digest, prefix) on api_keys');
select raise_tenant_wall();
