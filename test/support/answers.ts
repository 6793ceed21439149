/** Answers of each dialect that say "Hi", with a usage of the test's own. */

export const completion = (usage: unknown) => ({
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage,
});

/** Events of a streamed chat completion. */
export const token = { choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: null }] };
export const finish = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };

export const response = (more: object) => ({
  object: 'response',
  status: 'completed',
  model: 'internal-chat',
  error: null,
  output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }],
  ...more,
});

export const message = (usage: object) => ({
  type: 'message',
  role: 'assistant',
  model: 'internal-chat',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage,
});

/** @param start the usage of its first event, and @param delta that of its last but one */
export const messageEvents = (start: object, delta: object) => [
  { type: 'message_start', message: { ...message(start), content: [], stop_reason: null } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: delta },
  { type: 'message_stop' },
];
