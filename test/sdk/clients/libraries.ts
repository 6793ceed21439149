import { readFileSync } from 'node:fs';
import type { Client } from './client.ts';

/** A library, which a program beside this file uses. */
function library(
  name: string,
  program: string,
  packages: readonly string[],
  asked: string,
): Client {
  const isPython = program.endsWith('.py');
  return {
    name,
    from: isPython ? 'pip' : 'npm',
    packages,
    asked,
    start: ({ folder }) => ({
      command: [isPython ? `${folder}/venv/bin/python` : process.execPath, `${folder}/${program}`],
      files: { [program]: readFileSync(new URL(program, import.meta.url), 'utf8') },
    }),
  };
}

const PLATFORM = `${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}`;

/** Its three providers ask the same question. */
const promptfoo: Client = {
  name: 'promptfoo',
  from: 'npm',
  packages: ['promptfoo', `@libsql/${PLATFORM}`],
  options: ['--omit=optional', '--omit=peer'], // they weigh 1.6 GB
  asked: 'an evaluation by chat completions, responses and messages',
  start({ folder, url, key, word }) {
    const provider = (id: string, apiBaseUrl: string) => ({
      id,
      config: { apiBaseUrl, apiKey: key },
    });
    const config = {
      prompts: ['Repeat {{word}}'],
      providers: [
        provider('openai:chat:demo-chat', url),
        provider('openai:responses:demo-chat', url),
        provider('anthropic:messages:demo-chat', url.replace(/\/v1$/, '')),
      ],
      tests: [{ vars: { word }, assert: [{ type: 'contains', value: word }] }],
    };
    const promptfoo = `${folder}/node_modules/.bin/promptfoo`;
    return {
      files: { 'project/promptfooconfig.json': JSON.stringify(config) },
      command: [
        'sh',
        '-c',
        `${promptfoo} eval -c promptfooconfig.json --no-cache --no-table -o out.json && cat out.json`,
      ],
      env: { PROMPTFOO_DISABLE_TELEMETRY: '1', PROMPTFOO_DISABLE_UPDATE: '1' },
    };
  },
};

export const LIBRARIES: readonly Client[] = [
  library(
    'openai-python',
    'openai_sdk.py',
    ['openai'],
    'a stream, tools by chat completions and responses, embeddings',
  ),
  library(
    'anthropic-python',
    'anthropic_sdk.py',
    ['anthropic'],
    'tools, a stream, the tool runner, the count of tokens',
  ),
  library(
    'openai-agents',
    'openai_agents.mjs',
    ['@openai/agents', 'openai', 'zod'],
    'an agent with a tool, two turns, a stream and an object by chat completions and responses',
  ),
  library(
    'langgraph',
    'langgraph.mjs',
    [
      '@langchain/langgraph',
      'langchain',
      '@langchain/core',
      '@langchain/openai',
      '@langchain/anthropic',
      'zod',
    ],
    'an agent with a tool and memory by chat completions, responses and messages',
  ),
  library(
    'llamaindex',
    'llamaindex.mjs',
    ['@llamaindex/openai', '@llamaindex/core', '@llamaindex/workflow'],
    'a stream, an agent with a tool by chat completions and responses',
  ),
  library(
    'mastra',
    'mastra.mjs',
    ['@mastra/core', 'zod'],
    'an agent with a tool, a stream, structured output',
  ),
  library('genkit', 'genkit.mjs', ['genkit', '@genkit-ai/compat-oai'], 'a tool, a stream'),
  library(
    'instructor',
    'instructor.mjs',
    ['@instructor-ai/instructor', 'openai@5', 'zod@3'],
    'an object of a given shape',
  ),
  library(
    'reranking',
    'reranking.mjs',
    ['cohere-ai', '@langchain/cohere', '@langchain/core', 'ai', '@ai-sdk/cohere'],
    'documents ranked by versions 1 and 2 of Cohere, LangChain and the AI SDK; a refusal',
  ),
  promptfoo,
];
