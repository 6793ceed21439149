-- Two more endpoints are booked: responses and messages. Not valid: rows of before have one of the
-- three older names, so there is nothing to look for in a large ledger.
alter table api_usage drop constraint api_usage_endpoint_check;
alter table api_usage add constraint api_usage_endpoint_check
  check (endpoint in ('chat.completions', 'embeddings', 'assistants.run', 'responses', 'messages')) not valid;
