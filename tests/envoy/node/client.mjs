// SPDX-License-Identifier: BSD-2-Clause

// Runs a scene with @grpc/grpc-js, and prints what the service answers:
// client.mjs SCENE USER ADDRESS,... PROTOS [CA CERT KEY].
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { readFileSync } from 'node:fs';

const PATIENCE_MS = 60000;
const [scene, user, addresses, protos, ...files] = process.argv.slice(2);
const options = { includeDirs: [protos], keepCase: true, enums: String, defaults: true };
const load = (file) => grpc.loadPackageDefinition(loadSync(file, options));
const { RateLimitService } = load('envoy/service/ratelimit/v3/rls.proto').envoy.service.ratelimit.v3;
const { Health } = load('grpc/health/v1/health.proto').grpc.health.v1;

const credentials = files.length ? grpc.credentials.createSsl(...files.map((file) => readFileSync(file)).toSpliced(1, 2,
  readFileSync(files[2]), readFileSync(files[1]))) : grpc.credentials.createInsecure();
const channel = {
  'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
  ...(scene === 'gzip' && { 'grpc.default_compression_algorithm': 2 }),
};
const target = `ipv4:${addresses}`;
const client = new RateLimitService(target, credentials, channel);

const request = (key, value) => ({ domain: 'clients', descriptors: [{ entries: [{ key, value }] }] });

// One call; resolves with the error or the response.
function call(method, message, deadline = Date.now() + PATIENCE_MS) {
  return new Promise((resolve) => {
    method(message, new grpc.Metadata(), { deadline }, (error, response) => resolve(error ?? response));
  });
}

const ask = (message, deadline) => call(client.ShouldRateLimit.bind(client), message, deadline);

function outcome(answer) {
  if (!(answer instanceof Error)) {
    return `${answer.overall_code} ${answer.statuses[0].limit_remaining}`;
  }
  const name = grpc.status[answer.code];
  return name === 'UNKNOWN' ? `UNKNOWN ${answer.details}` : name;
}

const print = (answer) => console.log(outcome(answer));

async function limits() {
  for (let i = 0; i < 4; i++) {
    print(await ask(request('few', user)));
  }
}

async function errors() {
  print(await ask({ ...request('few', user), domain: '' }));
  print(await ask({ domain: 'clients' }));
  const bytes = { serialize: (x) => x, deserialize: (x) => x };
  print(await call((message, metadata, more, done) => client.makeUnaryRequest(
    '/envoy.service.ratelimit.v3.RateLimitService/Nothing', bytes.serialize, bytes.deserialize, message, metadata, more,
    done), Buffer.alloc(0)));
  print(await ask(request('few', 'x'.repeat(1 << 20))));
}

async function many() {
  const calls = Array.from({ length: 1000 }, () => ask(request('many', user)));
  const words = (await Promise.all(calls)).map((answer) => outcome(answer).split(' ')[0]);
  console.log(words.filter((word) => word === 'OK').length, words.filter((word) => word === 'OVER_LIMIT').length);
}

async function health() {
  const checker = new Health(target, credentials, channel);
  for (const service of ['', 'ratelimit', 'other']) {
    const answer = await call(checker.Check.bind(checker), { service });
    console.log(answer instanceof Error ? grpc.status[answer.code] : answer.status);
  }
  const stream = checker.Watch({ service: '' });
  console.log((await new Promise((resolve) => stream.once('data', resolve))).status);
  stream.on('error', () => {});
  stream.cancel();
  checker.close();
}

// Calls until standard input ends. Prints a line once the first calls are answered, and then the failures.
async function drain() {
  let ended = false;
  let failures = 0;
  process.stdin.resume().once('end', () => { ended = true; }).once('data', () => { ended = true; });
  for (let calls = 0; !ended; calls++) {
    const answer = await ask(request('many', user));
    if (answer instanceof Error) {
      failures++;
      console.log(answer.message);
    }
    if (calls === 100) {
      console.log('called');
    }
  }
  console.log(failures, 'failures');
  process.stdin.pause();
}

const scenes = { limits, gzip: limits, errors, many, health, drain,
  deadline: async () => print(await ask(request('few', user), Date.now() - 1)) };
await scenes[scene]();
client.close();
