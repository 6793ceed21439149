import { removeDemo } from '../store/demo.ts';
import { command } from './command.ts';

export const demoCommand = command({
  name: 'demo remove',
  summary: 'remove the company and the models that "make run" created',
  options: {},
  notes: 'What something else uses is kept, and the command says so. Ledger rows and the operator stay.',
  async run({ transact }) {
    const result = await transact(removeDemo);
    const { removed, kept } = result;
    const text = [
      ...(removed.length === 0 ? [] : ['Removed:', ...removed.map((line) => `  ${line}`)]),
      ...(kept.length === 0 ? [] : ['Kept:', ...kept.map((line) => `  ${line}`)]),
    ];
    return { json: result, text: text.join('\n') || 'There is nothing of the demo.' };
  },
});
