import t from 'tap';
import {
  HARMLESS,
  STEERING_METADATA,
  STEERING_TABLE,
  STEERING_WITHIN,
} from '../../../src/domain/members/steering-table.ts';
import { REFERENCE, STEERING, SteeringFilter } from '../../../src/domain/request/steering.ts';

const filter = new SteeringFilter(STEERING);

/** A name that the entry stands for. */
const example = (entry: string) => entry.replace('*', 'some_thing').replace('[]', '');

/** The name as callers might write it for a reader that does not mind. */
const SPELLINGS: readonly ((name: string) => string)[] = [
  (name) => name,
  (name) => name.toUpperCase(),
  (name) => name.replace(/^./, (c) => c.toUpperCase()),
  (name) => name.replaceAll('_', '-'),
  (name) => name.replace(/([a-z0-9])_([a-z])/g, (_, a: string, b: string) => a + b.toUpperCase()),
  (name) => name.replaceAll('s', '\u017f').replaceAll('k', '\u212a'),
  (name) => name.replaceAll('i', '\u0131'),
  (name) => `${name}\0`,
  (name) => `${name}\0${'x'.repeat(300)}`,
];

/** What clients send and what only samples: never refused. */
const PASSES = `store metadata prompt_cache_key safety_identifier service_tier reasoning_effort parallel_tool_calls
  cache_control verbosity prediction thinking top_k temperature top_p seed stop logit_bias user n tools tool_choice
  modalities audio reasoning include_reasoning usage image_config guided_json structured_outputs response_format
  chat_template_kwargs min_p repetition_penalty cache_prompt use_beam_search
  stop_token_ids documents return_citations some_future_parameter cache_control_injection_points
  context_management compaction diagnostics output_config output_format prompt_cache_options prompt_cache_retention
  image truncation top_logprobs max_tool_calls include instructions text stop_sequences system`;

const words = (text: string) => text.trim().split(/\s+/);

t.test('every entry has who obeys it and what it would do', async (t) => {
  for (const [names, obeyedBy, effect] of [
    ...STEERING_TABLE,
    ...STEERING_WITHIN,
    ...STEERING_METADATA,
  ]) {
    t.ok(obeyedBy.length > 2 && effect.length > 8, names);
  }
  t.equal(new Set(STEERING).size, STEERING.length, 'no entry twice');
});

t.test('every entry is refused, at the top and in metadata, however it is spelled', async (t) => {
  for (const entry of STEERING_TABLE.flatMap(([names]) => words(names))) {
    for (const spell of SPELLINGS) {
      const name = spell(example(entry));
      if (!filter.refuses(name)) t.fail(`${entry} as ${JSON.stringify(name)}`);
      if (!filter.refusesInMetadata(name, false))
        t.fail(`metadata.${entry} as ${JSON.stringify(name)}`);
    }
  }
  for (const entry of STEERING_METADATA.flatMap(([names]) => words(names))) {
    for (const spell of SPELLINGS) {
      const name = spell(example(entry));
      if (!filter.refusesInMetadata(name, !entry.endsWith('[]')))
        t.fail(`metadata.${entry} as ${JSON.stringify(name)}`);
    }
  }
  for (const entry of STEERING_WITHIN.flatMap(([names]) => words(names))) {
    const [parent, name] = entry.split('.') as [string, string];
    for (const spell of SPELLINGS) t.ok(filter.refusesWithin(parent, spell(name)), entry);
    t.notOk(filter.refuses(parent), `${parent} itself`);
  }
  t.pass(`${STEERING.length} entries`);
});

t.test('what is harmless passes', async (t) => {
  for (const name of [
    ...words(PASSES),
    ...REFERENCE,
    ...HARMLESS.flatMap(([names]) => words(names)),
  ])
    t.notOk(filter.refuses(name), name);
  for (const [names, why] of HARMLESS) t.ok(why.length > 3, names);
  for (const label of [
    'priority',
    'deployment',
    'tags',
    'project',
    'session_id',
    'model',
    'end_user_id',
    'trace',
  ]) {
    t.notOk(filter.refusesInMetadata(label, true), `metadata.${label} as a label`);
  }
  for (const name of ['enable_thinking', 'thinking'])
    t.notOk(filter.refusesWithin('chat_template_kwargs', name));
});

t.test('a star stands for one character or more', async (t) => {
  const own = new SteeringFilter(['a_*', '*_z', 'b*y', '*']);
  t.ok(own.refuses('anything'));
  const few = new SteeringFilter(['a_*', '*_z', 'b*y']);
  for (const name of ['a_b', 'aB', 'x_z', 'xZ', 'bxy', 'b-y']) t.ok(few.refuses(name), name);
  for (const name of ['a_', 'a', '_z', 'z', 'by', 'b', '', 'ab']) t.notOk(few.refuses(name), name);
});
