/** Returns the file and the options of a command line. */
export function parseArgs(args) {
  const options = {};
  const files = [];
  for (const arg of args) {
    if (arg === '--no-header') {
      options.header = false;
    } else if (arg.startsWith('--')) {
      throw new RangeError(`unknown option ${arg}`);
    } else {
      files.push(arg);
    }
  }
  if (files.length !== 1) {
    throw new RangeError('expected one file');
  }
  return { file: files[0], options };
}
