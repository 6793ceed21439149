-- Whether an embedding model takes token ids in place of text. Models of before take text alone,
-- as do those of programs that do not name the column.
alter table models add column token_input text not null default 'refuse' check (token_input in ('accept', 'refuse'));
comment on column models.token_input is 'accept: input of POST /embeddings may be token ids, of the vocabulary of the model behind the slug';
