// SPDX-License-Identifier: BSD-2-Clause
// Loads the addon: a prebuilt one, or the one that lib/install.js built.
'use strict';
const { existsSync } = require('node:fs');
const path = require('node:path');
const { FileError } = require('./errors.js');

const root = path.join(__dirname, '..');
const places = [
  path.join(root, 'prebuilds', `${process.platform}-${process.arch}`, 'weir.node'),
  path.join(root, 'build', 'Release', 'weir.node'),
];
let addon;

function load() {
  const place = places.find(existsSync);
  if (!place) {
    throw new FileError(
      'weir+file: the addon is not built; `npm rebuild weir --foreground-scripts` builds it, ' +
        'with a C compiler, make and Python',
    );
  }
  return require(place);
}

module.exports = { places, load: () => (addon ??= load()) };
