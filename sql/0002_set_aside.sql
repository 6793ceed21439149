-- Usage records the ledger refused: kept whole, with the reason, for the operator to mend.
create table api_usage_set_aside (
  id         bigint generated always as identity primary key,
  record     text not null,
  reason     text not null,
  created_at timestamptz not null default now()
);
