-- The language of pages and e-mails, of a person and of a company.
alter table users add column language text constraint users_language check (language ~ '^[a-z]{2,3}$');
comment on column users.language is 'of pages and e-mails, as the person chose; null: that of the company';
alter table companies add column language text constraint companies_language check (language ~ '^[a-z]{2,3}$');
comment on column companies.language is 'of pages and e-mails for its people who chose none; null: that of each browser, and English in e-mails';
insert into tenant_grants (privilege) values ('update (language) on companies'), ('select (language) on users');
select raise_tenant_wall();
