import { removeDemo } from '../../operations/demo.ts';
import { command } from '../frame/command.ts';

export const demoCommand = command({
  name: 'demo remove',
  summary: 'remove the company and the models that "make run" created',
  options: {},
  notes:
    'What something else uses is kept, and the command says so. Ledger rows and the operator stay.',
  async run({ transact }) {
    const result = await transact(removeDemo);
    const { removed, kept } = result;
    const list = (title: string, lines: readonly string[]) =>
      lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
    const text = [...list('Removed:', removed), ...list('Kept:', kept)].join('\n');
    return { json: result, text: text || 'There is nothing of the demo.' };
  },
});
