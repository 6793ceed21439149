-- The tables of a LiteLLM database that an import reads, and some that it counts: columns and types of the public schema
-- of 2026, without their foreign keys.

create table "LiteLLM_BudgetTable" (
  budget_id text primary key, max_budget double precision, soft_budget double precision, max_parallel_requests integer,
  tpm_limit bigint, rpm_limit bigint, model_max_budget jsonb, budget_duration text, budget_reset_at timestamp(3),
  allowed_models text[] default '{}', created_at timestamp(3) not null default now(), created_by text not null default 'admin',
  updated_at timestamp(3) not null default now(), updated_by text not null default 'admin'
);
create table "LiteLLM_ProxyModelTable" (
  model_id text primary key, model_name text not null, litellm_params jsonb not null, model_info jsonb,
  blocked boolean not null default false, created_at timestamp(3) not null default now(), created_by text not null default 'admin',
  updated_at timestamp(3) not null default now(), updated_by text not null default 'admin'
);
create table "LiteLLM_OrganizationTable" (
  organization_id text primary key, organization_alias text not null, budget_id text not null, metadata jsonb not null default '{}',
  models text[], spend double precision not null default 0
);
create table "LiteLLM_TeamTable" (
  team_id text primary key, team_alias text, organization_id text, object_permission_id text, admins text[], members text[],
  members_with_roles jsonb not null default '{}', metadata jsonb not null default '{}', max_budget double precision,
  soft_budget double precision, spend double precision not null default 0, models text[], max_parallel_requests integer,
  tpm_limit bigint, rpm_limit bigint, budget_duration text, budget_reset_at timestamp(3), blocked boolean not null default false,
  created_at timestamp(3) not null default now(), updated_at timestamp(3) not null default now(),
  model_spend jsonb not null default '{}', model_max_budget jsonb not null default '{}', router_settings jsonb default '{}',
  team_member_permissions text[] default '{}', access_group_ids text[] default '{}', policies text[] default '{}',
  default_team_member_models text[] default '{}', budget_limits jsonb, model_id integer,
  allow_team_guardrail_config boolean not null default false
);
create table "LiteLLM_UserTable" (
  user_id text primary key, user_alias text, team_id text, sso_user_id text, organization_id text, object_permission_id text,
  password text, teams text[] default '{}', user_role text, max_budget double precision, spend double precision not null default 0,
  user_email text, models text[], metadata jsonb not null default '{}', max_parallel_requests integer, tpm_limit bigint,
  rpm_limit bigint, budget_duration text, budget_reset_at timestamp(3), allowed_cache_controls text[] default '{}',
  policies text[] default '{}', model_spend jsonb not null default '{}', model_max_budget jsonb not null default '{}',
  created_at timestamp(3) default now(), updated_at timestamp(3) default now()
);
create table "LiteLLM_VerificationToken" (
  token text primary key, key_name text, key_alias text, soft_budget_cooldown boolean not null default false,
  spend double precision not null default 0, expires timestamp(3), models text[], aliases jsonb not null default '{}',
  config jsonb not null default '{}', router_settings jsonb default '{}', user_id text, team_id text, agent_id text,
  project_id text, permissions jsonb not null default '{}', max_parallel_requests integer, metadata jsonb not null default '{}',
  blocked boolean, tpm_limit bigint, rpm_limit bigint, max_budget double precision, budget_duration text,
  budget_reset_at timestamp(3), allowed_cache_controls text[] default '{}', allowed_routes text[] default '{}',
  policies text[] default '{}', access_group_ids text[] default '{}', model_spend jsonb not null default '{}',
  model_max_budget jsonb not null default '{}', budget_id text, organization_id text, object_permission_id text,
  created_at timestamp(3) default now(), created_by text, updated_at timestamp(3) default now(), updated_by text,
  last_active timestamp(3), rotation_count integer default 0, auto_rotate boolean default false, rotation_interval text,
  last_rotation_at timestamp(3), key_rotation_at timestamp(3), budget_limits jsonb
);
create table "LiteLLM_DeprecatedVerificationToken" (
  id text primary key, token text not null unique, active_token_id text not null, revoke_at timestamp(3) not null,
  created_at timestamp(3) not null default now()
);
create table "LiteLLM_EndUserTable" (
  user_id text primary key, alias text, spend double precision not null default 0, allowed_model_region text, default_model text,
  budget_id text, object_permission_id text, blocked boolean not null default false
);
create table "LiteLLM_TagTable" (tag_name text primary key, description text, models text[], spend double precision not null default 0);
create table "LiteLLM_SpendLogs" (request_id text primary key, api_key text not null default '', spend double precision not null default 0);
