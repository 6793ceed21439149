import type { Command } from './command.ts';
import { placeholderOf, shownName } from './command.ts';

/** The shells for which there is a completion. */
export const COMPLETED_SHELLS = ['bash', 'zsh'] as const;

type Described = Pick<Command, 'name' | 'summary' | 'operand' | 'options'>;
/** A word that may come next, and what it means. */
type Item = readonly [word: string, meaning: string];
/** The words that may follow others: after "", nouns; "company", verbs; "company set", options; "company set --budget-mode", values. */
type Next = readonly (readonly [after: string, items: readonly Item[]])[];

/** Stands for the name of a file, which the shell completes. */
const FILE: Item = ['<file>', ''];

/** A script that completes the program's commands, their options, and values of which there are few. */
export function completion(
  shell: (typeof COMPLETED_SHELLS)[number],
  commands: readonly Described[],
): string {
  const next = nextWords(commands);
  return shell === 'bash' ? bash(next) : zsh(next);
}

function nextWords(commands: readonly Described[]): Next {
  const groups = [...Map.groupBy(commands, ({ name }) => name.split(' ')[0] as string)];
  const verbsIn = (group: readonly Described[]) =>
    group.flatMap(({ name, summary }): Item[] => {
      const verb = name.split(' ')[1];
      return verb === undefined ? [] : [[verb, summary]];
    });
  const nouns = groups.map(([noun, group]): Item => {
    const verbs = verbsIn(group).map(([verb]) => verb);
    return [noun, verbs.length > 0 ? verbs.join(', ') : (group[0] as Described).summary];
  });
  const ofNouns = groups.map(([noun, group]) => {
    const itself = group.find(({ name }) => name === noun);
    return [noun, [...verbsIn(group), ...(itself ? wordsOf(itself) : [])]] as const;
  });
  const ofVerbs = commands.filter(({ name }) => name.includes(' '));
  return [
    ['', nouns],
    ...ofNouns,
    ...ofVerbs.map((each) => [each.name, wordsOf(each)] as const),
    ...commands.flatMap(valuesOf),
  ];
}

/** The operand's values, where they are known, and the options. */
function wordsOf({ operand, options }: Described): Item[] {
  const each = Object.values(options).map(
    (option): Item => [`--${shownName(option)}`, option.meaning],
  );
  return [
    ...choicesIn(operand?.shown),
    ...each,
    ['--json', 'print one JSON value'],
    ['--help', 'explain the command'],
  ];
}

function valuesOf({ name, options }: Described): Next {
  return Object.values(options).flatMap((option) => {
    const placeholder = placeholderOf(option);
    const after = `${name} --${shownName(option)}`;
    return placeholder === undefined ? [] : [[after, choicesIn(placeholder)] as const];
  });
}

/** The values that a placeholder such as "chat|embedding" or "FILE" shows. */
function choicesIn(placeholder = ''): Item[] {
  const words = placeholder.split('|');
  const choices = words.filter((word) => /^[a-z-]+$/.test(word)).map((word): Item => [word, '']);
  return words.some((word) => word.startsWith('FILE')) ? [...choices, FILE] : choices;
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

function bash(next: Next): string {
  const lines = next.map(
    ([after, items]) =>
      `    ${quoted(after)}) next=${quoted(items.map(([word]) => word).join(' '))} ;;`,
  );
  return `# completion of tollgate for bash, made by "tollgate completion bash"
_tollgate_next() {
  case "$1" in
${lines.join('\n')}
    *) return 1 ;;
  esac
}
_tollgate() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" at=$COMP_CWORD next='' command=''
  # bash takes --option=value as three words
  if [[ $cur == '=' ]]; then cur=''; elif [[ \${COMP_WORDS[at-1]} == '=' ]]; then at=$((at - 1)); fi
  local prev="\${COMP_WORDS[at-1]}"
  if ((COMP_CWORD > 1)); then command="\${COMP_WORDS[1]}"; fi
  if ((COMP_CWORD > 2)) && [[ \${COMP_WORDS[2]} != -* ]] && _tollgate_next "$command \${COMP_WORDS[2]}"; then
    command="$command \${COMP_WORDS[2]}"
  fi
  _tollgate_next "$command $prev" || _tollgate_next "$command" || next=''
  COMPREPLY=()
  if [[ " $next " == *' <file> '* ]]; then
    compopt -o default 2>/dev/null
    next="\${next//<file>/}"
  fi
  local word
  for word in $next; do
    if [[ $word == "$cur"* ]]; then COMPREPLY+=("$word"); fi
  done
}
complete -F _tollgate tollgate`;
}

function zsh(next: Next): string {
  const lines = next.map(([after, items]) => {
    const words = items.map(([word, meaning]) =>
      quoted(meaning === '' ? word : `${word}:${meaning}`),
    );
    return `    ${quoted(after)}) next=(${words.join(' ')}) ;;`;
  });
  return `#compdef tollgate
# completion of tollgate for zsh, made by "tollgate completion zsh"
_tollgate_next() {
  case "$1" in
${lines.join('\n')}
    *) return 1 ;;
  esac
}
_tollgate() {
  local -a next
  local command='' prev="\${words[CURRENT-1]}"
  if [[ \${words[CURRENT]} == --*=* ]]; then
    prev="\${words[CURRENT]%%=*}"
    compset -P '*='
  fi
  if ((CURRENT > 2)); then command="\${words[2]}"; fi
  if ((CURRENT > 3)) && [[ \${words[3]} != -* ]] && _tollgate_next "$command \${words[3]}"; then
    command="$command \${words[3]}"
  fi
  _tollgate_next "$command $prev" || _tollgate_next "$command" || next=()
  if ((\${next[(Ie)<file>]})); then
    next=("\${(@)next:#<file>}")
    _files
  fi
  _describe tollgate next
}
if [[ "\${funcstack[1]}" == _tollgate ]]; then _tollgate "$@"; else compdef _tollgate tollgate; fi`;
}
