import type { Client, Setting } from './client.ts';

const MODEL = 'demo-chat';

/** The demo upstream calls the tool that the question names, with the words in backticks. */
const readNote = ({ folder }: Setting): string => `Please read \`${folder}/project/note.txt\``;
const RUN_CAT = 'Please run the command `cat note.txt`';

const binary = ({ folder }: Setting, path: string): string => `${folder}/node_modules/${path}`;
const PLATFORM = `${process.platform}-${process.arch}`;

/** Agents of the command line: each is told the base address, the key and the model, and nothing else that matters. */
export const AGENTS: readonly Client[] = [
  {
    name: 'codex',
    from: 'npm',
    packages: ['@openai/codex'],
    asked: 'a command, by responses',
    start: (setting) => ({
      files: {
        '.codex/config.toml': `model = "${MODEL}"
model_provider = "tollgate"
web_search = "disabled"
[model_providers.tollgate]
name = "Tollgate"
base_url = "${setting.url}"
env_key = "TOLLGATE_KEY"
`,
      },
      command: [
        binary(setting, '.bin/codex'),
        'exec',
        '--skip-git-repo-check',
        '--dangerously-bypass-approvals-and-sandbox',
        RUN_CAT,
      ],
    }),
  },
  {
    name: 'claude-code',
    from: 'npm',
    packages: ['@anthropic-ai/claude-code'],
    asked: 'a file, by messages',
    start: (setting) => ({
      // its own command is put in place by an install script, which is not run
      command: [
        binary(setting, `@anthropic-ai/claude-code-${PLATFORM}/claude`),
        '--print',
        readNote(setting),
        '--allowedTools',
        'Read',
      ],
      env: {
        ANTHROPIC_BASE_URL: setting.url.replace(/\/v1$/, ''),
        ANTHROPIC_AUTH_TOKEN: setting.key,
        ANTHROPIC_MODEL: MODEL,
        ANTHROPIC_SMALL_FAST_MODEL: MODEL,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      },
    }),
  },
  {
    name: 'opencode',
    from: 'npm',
    packages: ['opencode-ai'],
    asked: 'a file, by chat completions',
    start: (setting) => ({
      files: {
        'project/opencode.json': JSON.stringify({
          model: `tollgate/${MODEL}`,
          small_model: `tollgate/${MODEL}`,
          autoupdate: false,
          provider: {
            tollgate: {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: setting.url, apiKey: '{env:TOLLGATE_KEY}' },
              models: { [MODEL]: {} },
            },
          },
        }),
      },
      command: [binary(setting, `opencode-${PLATFORM}/bin/opencode`), 'run', readNote(setting)],
    }),
  },
  {
    name: 'qwen-code',
    from: 'npm',
    packages: ['@qwen-code/qwen-code'],
    asked: 'a command, by chat completions',
    start: (setting) => ({
      // it loses the output of a command that ends at once
      command: [
        binary(setting, '.bin/qwen'),
        '--auth-type',
        'openai',
        '--yolo',
        '--prompt',
        'Please run the command `cat note.txt && sleep 1`',
      ],
      env: { OPENAI_BASE_URL: setting.url, OPENAI_API_KEY: setting.key, OPENAI_MODEL: MODEL },
    }),
  },
  {
    name: 'pi',
    from: 'npm',
    packages: ['@mariozechner/pi-coding-agent'],
    asked: 'a file, by chat completions',
    start: (setting) => ({
      files: {
        '.pi/agent/models.json': JSON.stringify({
          providers: {
            tollgate: {
              baseUrl: setting.url,
              api: 'openai-completions',
              apiKey: 'TOLLGATE_KEY',
              models: [{ id: MODEL }],
            },
          },
        }),
      },
      command: [
        binary(setting, '.bin/pi'),
        '--provider',
        'tollgate',
        '--model',
        MODEL,
        '--print',
        readNote(setting),
      ],
      env: { PI_OFFLINE: '1' },
    }),
  },
  {
    name: 'continue',
    from: 'npm',
    packages: ['@continuedev/cli'],
    asked: 'a file, by chat completions',
    start: (setting) => ({
      files: {
        'config.yaml': `name: tollgate
version: 1.0.0
schema: v1
models:
  - name: demo
    provider: openai
    model: ${MODEL}
    apiBase: ${setting.url}
    apiKey: ${setting.key}
    capabilities: [tool_use]
`,
      },
      command: [
        binary(setting, '.bin/cn'),
        '--config',
        `${setting.folder}/config.yaml`,
        '--auto',
        '--print',
        readNote(setting),
      ],
      env: { CONTINUE_TELEMETRY_ENABLED: '0' },
    }),
  },
  {
    name: 'cline',
    from: 'npm',
    packages: ['cline'],
    asked: 'a command, by chat completions',
    start: (setting) => {
      const cline = binary(setting, '.bin/cline');
      const auth = `${cline} auth --provider openai --baseurl ${setting.url} --apikey $TOLLGATE_KEY --modelid ${MODEL}`;
      return {
        command: ['sh', '-c', `${auth} && ${cline} 'Please run the commands \`cat note.txt\`'`],
        env: { CLINE_SESSION_BACKEND_MODE: 'local' }, // leaves no process behind
      };
    },
  },
];
