// SPDX-License-Identifier: BSD-2-Clause
'use strict';
// For --require: weir does not find ioredis, as where only node-redis is installed.
const Module = require('node:module');

const resolve = Module._resolveFilename;
Module._resolveFilename = function find(request, parent, ...more) {
  if (request === 'ioredis' && /[\\/]lib[\\/]connection\.js$/.test(parent?.filename ?? '')) {
    throw Object.assign(new Error(`Cannot find module '${request}'`), { code: 'MODULE_NOT_FOUND' });
  }
  return resolve.call(this, request, parent, ...more);
};
