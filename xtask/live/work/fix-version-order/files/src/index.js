export { compare, parse } from './version.js';
export { newest, releasesSince } from './releases.js';
