#!/usr/bin/env node
import { readFileSync } from 'node:fs';

import { parseArgs, table } from '../src/index.js';

try {
  const { file, options } = parseArgs(process.argv.slice(2));
  process.stdout.write(table(JSON.parse(readFileSync(file, 'utf8')), options));
} catch (error) {
  console.error(error.message);
  process.exitCode = 2;
}
