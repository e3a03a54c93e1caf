// SPDX-License-Identifier: BSD-2-Clause
// Builds the addon when the package is installed, unless a prebuilt one works. Without the addon, the package works
// with a daemon only, so a failed build does not fail the installation.
'use strict';
const { spawnSync } = require('node:child_process');
const { existsSync } = require('node:fs');
const path = require('node:path');
const { places } = require('./addon.js');

const headers = path.resolve(process.execPath, '..', '..');

function works(place) {
  return existsSync(place) && spawnSync(process.execPath, ['-e', `require(${JSON.stringify(place)})`]).status === 0;
}

function build() {
  const words = ['rebuild'];
  // These are the headers that node was installed with. Without them, node-gyp looks for them itself.
  if (existsSync(path.join(headers, 'include', 'node', 'node_api.h'))) words.push(`--nodedir=${headers}`);
  const program = process.platform === 'win32' ? 'node-gyp.cmd' : 'node-gyp'; // npm has it in PATH
  return spawnSync(program, words, { cwd: path.join(__dirname, '..'), stdio: 'inherit' });
}

if (!works(places[0])) {
  const { status, error } = build();
  if (status !== 0)
    console.warn(`weir: the addon was not built (${error?.message ?? `status ${status}`}): weir+file is missing`);
}
