// SPDX-License-Identifier: BSD-2-Clause
// A connection to the daemon: a client of ioredis or node-redis, of the application or made here, with a timeout for
// each request. No request is ever sent twice or kept for later, because it could be charged twice, or long after its
// answer was needed.
'use strict';
const { OptionError, UnavailableError, mistake } = require('./errors.js');

const LATE_MAX = 16; // requests that wait for a reply after their timeout
const RECONNECT_MS = { first: 50, longest: 1000 };
const CONNECT_MS = 1000; // for a connection, at least: it is made while requests fail

const reconnectDelay = (tries) => Math.min(RECONNECT_MS.first * 2 ** Math.min(tries, 10), RECONNECT_MS.longest);

// ---- the two libraries ----------------------------------------------------------------------------------------------

function optional(name) {
  try {
    return require(name);
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return null;
    throw error;
  }
}

// Remembers why there is no connection: the client's error when it connected last, such as a wrong password.
function withReason(client, parts) {
  const target = { reason: undefined, ...parts };
  client.on('error', (error) => {
    target.reason = error;
  });
  client.on('ready', () => {
    target.reason = undefined;
  });
  return target;
}

// ioredis writes each request with a system call of its own. This writes those of one iteration of the event loop
// together, which also saves the daemon system calls.
function ioredisSend(client) {
  let corked;
  return (words) => {
    const { stream } = client;
    if (stream?.cork && stream !== corked) {
      corked = stream;
      stream.cork();
      setImmediate(() => {
        corked = undefined;
        stream.uncork();
      });
    }
    return client.call(...words);
  };
}

// What this file needs of a client: `first` settles when the first attempt to connect has ended.
function withIoredis({ Redis }, { host, port, username, password, tls, connectMs }) {
  const client = new Redis({
    host,
    port,
    username,
    password,
    tls,
    lazyConnect: true,
    connectTimeout: connectMs,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    enableReadyCheck: false,
    retryStrategy: reconnectDelay,
  });
  return withReason(client, { first: client.connect(), send: ioredisSend(client), close: () => client.disconnect() });
}

function withNodeRedis({ createClient }, { host, port, username, password, tls, connectMs }) {
  const client = createClient({
    username,
    password,
    disableOfflineQueue: true,
    socket: {
      host,
      port,
      ...(tls && { tls: true, ...tls }),
      connectTimeout: connectMs,
      reconnectStrategy: reconnectDelay,
    },
  });
  const failed = new Promise((resolve) => client.on('error', resolve));
  return withReason(client, {
    first: Promise.race([client.connect(), failed]),
    send: (words) => client.sendCommand(words),
    close: () => client.destroy(),
  });
}

function make(target) {
  const ioredis = optional('ioredis');
  if (ioredis) return withIoredis(ioredis, target);
  const redis = optional('redis');
  if (redis) return withNodeRedis(redis, target);
  throw new OptionError('weir:// needs a client library: install ioredis or redis, or pass a client as `client`');
}

// A client of the application.
function adopt(client) {
  if (typeof client.call === 'function') {
    for (const name of ['autoResendUnfulfilledCommands', 'enableOfflineQueue']) {
      if (client.options?.[name] !== false) {
        throw new OptionError(
          `client: expected an ioredis client with ${name}: false, because weir could charge a ` +
            'request twice or late otherwise',
        );
      }
    }
    return { send: ioredisSend(client), close() {} };
  }
  if (typeof client.sendCommand !== 'function') mistake('client', 'a client of ioredis or node-redis', typeof client);
  if (client.options?.disableOfflineQueue !== true) {
    throw new OptionError(
      'client: expected a node-redis client with disableOfflineQueue: true, because weir could ' +
        'charge a request long after its timeout otherwise',
    );
  }
  return { send: (words) => client.sendCommand(words), close() {} };
}

// ---- requests -------------------------------------------------------------------------------------------------------

class Connection {
  #make;
  #client;
  #starting; // the first attempt to connect; requests wait for it until their timeout
  #timeout;
  #late = 0;
  users = 0;

  constructor(makeClient, timeout) {
    this.#make = makeClient;
    this.#timeout = timeout;
    this.#start();
  }

  #start() {
    const client = this.#make();
    this.#client = client;
    this.#late = 0;
    this.#starting = client.first
      ?.then(
        () => {},
        () => {},
      )
      .then(() => {
        if (this.#client === client) this.#starting = undefined;
      });
  }

  send(words) {
    if (this.#late >= LATE_MAX) {
      this.#replace();
      return Promise.reject(new UnavailableError(`the daemon has not replied to ${LATE_MAX} requests`));
    }
    return new Promise((resolve, reject) => {
      const request = { client: this.#client, isLate: false };
      const timer = setTimeout(() => this.#expire(request, reject), this.#timeout);
      const settle = (end) => (value) => {
        clearTimeout(timer);
        if (request.isLate && request.client === this.#client) this.#late--;
        end(value);
      };
      this.#sent(request, words).then(settle(resolve), settle(reject));
    });
  }

  // Sends the request, unless it expired while it waited for the connection.
  async #sent(request, words) {
    if (this.#starting) await this.#starting;
    if (request.isLate) throw new UnavailableError('no connection');
    try {
      return await request.client.send(words);
    } catch (error) {
      throw request.client.reason ?? error;
    }
  }

  #expire(request, reject) {
    request.isLate = true;
    if (request.client === this.#client) this.#late++;
    reject(new UnavailableError(`no reply within ${this.#timeout} ms`));
  }

  // Leaves a connection that does not answer. A client of the application stays.
  #replace() {
    if (!this.#client.first) return;
    this.#client.close();
    this.#start();
  }

  close() {
    this.#client.close();
  }
}

const connections = new Map();

// Returns a connection for a URL. Limiters with the same URL, timeout and TLS options share one.
function connect(url, tls, timeout) {
  const target = {
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: Number(url.port || 6380),
    username: decodeURIComponent(url.username) || undefined,
    password: decodeURIComponent(url.password) || undefined,
    tls: url.protocol === 'weirs:' ? (tls ?? {}) : undefined,
    connectMs: Math.max(CONNECT_MS, timeout),
  };
  const name = `${url.href} ${timeout}`;
  const same = connections.get(name);
  const connection = same && same.tls === tls ? same.connection : new Connection(() => make(target), timeout);
  connections.set(name, { connection, tls });
  connection.users++;
  return {
    send: (words) => connection.send(words),
    close() {
      if (--connection.users > 0) return;
      if (connections.get(name)?.connection === connection) connections.delete(name);
      connection.close();
    },
  };
}

const borrow = (client, timeout) => new Connection(() => adopt(client), timeout);

module.exports = { borrow, connect };
