-- Statements of pages take milliseconds. Where Postgres compiles some of them (jit, on by default where the server
-- has LLVM), that takes longer than running them: a list of 10,000 keys took 1.2 s instead of 0.2 s. Sessions of the
-- user that migrates, in this database, do without; another user of yours needs the same line.
do $$
begin
  execute format('alter role %I in database %I set jit = off', current_user, current_database());
exception when insufficient_privilege then
  raise notice 'jit stays as it is: % may not be changed', current_user;
end $$;
