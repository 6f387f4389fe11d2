export { Queue } from './queue.js';
export { report } from './report.js';
export { delayBefore } from './retry.js';
