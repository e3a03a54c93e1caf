// SPDX-License-Identifier: BSD-2-Clause
// The errors of this package. `code` is for programs, `message` for people.
'use strict';

class WeirError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = this.constructor.name;
    this.code = this.constructor.code;
  }

  static code = 'WEIR_ERROR';
}

// A class of errors with its code.
const subclass = (name, code, base = WeirError) =>
  ({
    [name]: class extends base {
      static code = code;
    },
  })[name];

// An option or an argument is wrong.
const OptionError = subclass('OptionError', 'WEIR_OPTION');
// The policy has a mistake, or the daemon has no policy of this name.
const PolicyError = subclass('PolicyError', 'WEIR_POLICY');
// The policy does not support the operation, such as a refund of a leaky-queue.
const UnsupportedError = subclass('UnsupportedError', 'WEIR_UNSUPPORTED');
// The reservation was committed, was cancelled or has expired.
const ReservationError = subclass('ReservationError', 'WEIR_RESERVATION');
// The daemon wants a password, or the user may not use the command, the policy or the key.
const AccessError = subclass('AccessError', 'WEIR_ACCESS');
// The state file cannot be opened, or is no longer at its path.
const FileError = subclass('FileError', 'WEIR_FILE');
// No decision was made: the daemon did not reply in time. It may have charged the request.
const UnavailableError = subclass('UnavailableError', 'WEIR_UNAVAILABLE');
// No decision was made: the store has no memory for another key or reservation.
const FullError = subclass('FullError', 'WEIR_FULL', UnavailableError);

// The request was denied; `decision` says until when.
class DeniedError extends subclass('DeniedError', 'WEIR_DENIED') {
  constructor(decision) {
    super('the limit is reached');
    this.decision = decision;
  }
}

const describe = (value) => (typeof value === 'string' ? `'${value}'` : String(value));

const TIMER_MS_MAX = 2147483647; // a longer timer of Node ends at once

// Throws an OptionError that names an option, what was expected and what was found.
function mistake(name, expected, found) {
  throw new OptionError(`${name}: expected ${expected}, found ${describe(found)}`);
}

function integer(name, value, from, to) {
  if (!Number.isSafeInteger(value) || value < from || value > to) {
    mistake(name, `a whole number from ${from} to ${to}`, value);
  }
  return value;
}

// Returns what a limiter works with, which close() sets to undefined.
const opened = (value) => value ?? mistake('limiter', 'an open one', 'a closed one');

// Fails if an object has another member than those.
function onlyKnown(object, known, where) {
  if (typeof object !== 'object' || object === null) mistake(where, 'an object of options', object);
  for (const name of Object.keys(object)) {
    if (!known.includes(name) && object[name] !== undefined) {
      throw new OptionError(`${where} has no option '${name}', expected one of ${known.join(', ')}`);
    }
  }
}

module.exports = {
  WeirError,
  OptionError,
  PolicyError,
  UnsupportedError,
  ReservationError,
  AccessError,
  FileError,
  UnavailableError,
  FullError,
  DeniedError,
  TIMER_MS_MAX,
  mistake,
  integer,
  onlyKnown,
  opened,
};
