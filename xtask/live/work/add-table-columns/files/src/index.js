export { table } from './table.js';
export { parseArgs } from './args.js';
