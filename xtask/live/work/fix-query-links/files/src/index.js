export { read } from './read.js';
export { write } from './write.js';
export { searchLink, searchOf } from './search.js';
