// SPDX-License-Identifier: BSD-2-Clause
// Compiled, not run: the types of the package.
import {
  DeniedError,
  ExpressStore,
  fastifyRateLimit,
  fastifyStore,
  FlexibleLimiter,
  ipKey,
  Limiter,
  NestStorage,
  rateLimit,
} from 'weir';
import type { Decision } from 'weir';

const limiter = new Limiter('gcra 10/m burst 5', {
  url: 'weir+file:///tmp/limits',
  memory: 64 << 20,
  onError: 'closed',
});
const decision: Decision = await limiter.check('alice', { cost: 2, keep: '20%', next: true });
const wait: number = decision.retryAfterMs + (decision.nextMs ?? 0) + limiter.checkSync('alice').resetAfterMs;
const reservation = await limiter.reserve('alice', 3, 1000);
const over: number | undefined = (await reservation.commit(2)).over;
const length: number = await limiter.concurrent('alice', () => 'text', { ttl: 5 }).then((text) => text.length);
const error: Decision = new DeniedError(decision).decision;
const stores = [new ExpressStore({ url: 'weir://' }), new NestStorage({ url: 'weir://', policy: 'api' })];
const Store = fastifyStore({ url: 'weirs://', tls: {}, timeout: 50 });
const points: number = (await new FlexibleLimiter({ url: 'weir://', points: 1, duration: 2 }).consume('k'))
  .remainingPoints;
const middleware = rateLimit({ limiter, standardHeaders: 'draft-7', keyGenerator: (request) => ipKey(request.ip, 64) });
middleware.limiter.close();
new Limiter('api', { url: 'weir+file:///tmp/limits', policies: { api: 'gcra 1/s' } }).close();

export { error, fastifyRateLimit, length, over, points, Store, stores, wait };
