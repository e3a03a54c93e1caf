// SPDX-License-Identifier: BSD-2-Clause
// docs/clients/node.md describes the package. All numbers are whole numbers that a JavaScript number holds exactly.

export interface Decision {
  allowed: boolean;
  /** The largest cost that an unused key can be charged at once. */
  limit: number;
  remaining: number;
  /** 0 if allowed; -1 if no wait helps. */
  retryAfterMs: number;
  /** The time until the full limit is available. */
  resetAfterMs: number;
  /** leaky-queue: hold the request for this long, then serve it. */
  delayMs: number;
  /** `on-error`: no decision was made, and `onError` decided. The numbers are then 0. */
  reason: 'limit' | 'on-error';
  /** With `on-error`: why no decision was made. */
  error?: UnavailableError;
  /** With the option `next`: the time until a cost of 1 is allowed; -1 if no wait helps. */
  nextMs?: number;
}

/** `over`: the units that could not be counted, 0 in practice. */
export type Charged = Decision & { over?: number };

export interface CommonOptions {
  /** weir://HOST:PORT, weirs://HOST:PORT (TLS) or weir+file:///PATH */
  url: string;
  /** Comes before every key. */
  prefix?: string;
  /** Called with each failure: no reply, no memory, or a state file that was moved. */
  onFailure?(error: Error): void;
  /** weir://: a client of ioredis or node-redis, in place of one that is made here. */
  client?: object;
  /** weir://: the wait for a reply in ms; 100 by default. */
  timeout?: number;
  /** weirs://: the options of tls.connect(). */
  tls?: object;
  /** weir+file: the texts of policies by their names, of which `policy` is one. */
  policies?: Record<string, string>;
  /** weir+file: the size of the file in bytes. By default, that of an existing file, and 256 MiB for a new one. */
  memory?: number;
  /** weir+file: `1s` writes changes to the disk once a second; a killed process loses nothing in any case. */
  sync?: 'never' | '1s';
  /** weir+file: what happens to a new key when the memory is full. */
  whenFull?: 'evict' | 'refuse';
  /** weir+file, for tests: the time in ns since 1970. */
  clock?(): bigint;
}

export interface LimiterOptions extends CommonOptions {
  /** What a call returns if no decision was made; `open`, the default, allows. */
  onError?: 'open' | 'closed' | 'throw';
}

export interface CheckOptions {
  /** 1 by default; 0 charges nothing. */
  cost?: number;
  /** Units that must remain for others, or a share such as `20%`. */
  keep?: number | `${number}%`;
  /** Adds `nextMs` to the decision. */
  next?: boolean;
}

export class Reservation {
  readonly decision: Decision;
  readonly allowed: boolean;
  readonly id: string | null;
  commit(actual: number): Promise<Charged>;
  cancel(): Promise<Charged>;
  renew(ttl?: number): Promise<Decision>;
  // [Symbol.asyncDispose], where the library of TypeScript has it
}

export class Limiter {
  constructor(policy: string, options: LimiterOptions);
  readonly failures: number;
  check(key: string, options?: CheckOptions): Promise<Decision>;
  checkSync(key: string, options?: CheckOptions): Decision;
  peek(key: string, options?: CheckOptions): Promise<Decision>;
  refund(key: string, units?: number): Promise<Decision>;
  charge(key: string, units?: number): Promise<Charged>;
  reset(key: string): Promise<void>;
  resetAll(): Promise<void>;
  /** `ttl` in ms; without it, the lease of the policy's concurrent layer. */
  reserve(key: string, units: number, ttl?: number): Promise<Reservation>;
  /** Rejects with a DeniedError, without a call of fn, if the limit is reached. */
  concurrent<T>(key: string, fn: () => T | Promise<T>, options?: { ttl?: number }): Promise<T>;
  close(): void;
}

/** The key of an IP address: its network of `v6` or `v4` bits. */
export function ipKey(address: string, v6?: number, v4?: number): string;

type Value<T, A extends unknown[]> = T | ((...args: A) => T | Promise<T>);

export interface GuardOptions<A extends unknown[]> extends Partial<CommonOptions> {
  limiter?: Limiter;
  policy?: string;
  standardHeaders?: boolean | 'draft-6' | 'draft-7' | 'draft-8';
  legacyHeaders?: boolean;
  ipv6Subnet?: number;
  identifier?: Value<string, A>;
  keyGenerator?(...args: A): string | Promise<string>;
  skip?(...args: A): boolean | Promise<boolean>;
  cost?: Value<number, A>;
  keep?: number | `${number}%`;
  statusCode?: number;
  message?: Value<unknown, A>;
  /** Serves a request for which no decision was made. */
  passOnStoreError?: boolean;
  requestPropertyName?: string;
}

export interface RateLimitOptions extends GuardOptions<[any, any]> {
  handler?(request: any, response: any, next: (error?: unknown) => void, decision: Decision): unknown;
  skipFailedRequests?: boolean;
  skipSuccessfulRequests?: boolean;
  requestWasSuccessful?(request: any, response: any): boolean | Promise<boolean>;
}

export function rateLimit(
  options: RateLimitOptions,
): ((request: any, response: any, next: (error?: unknown) => void) => Promise<unknown>) & { limiter: Limiter };

export interface FastifyRateLimitOptions extends GuardOptions<[any, any]> {
  handler?(request: any, reply: any, decision: Decision): unknown;
}

export function fastifyRateLimit(fastify: any, options: FastifyRateLimitOptions): Promise<void>;

export interface StoreOptions extends CommonOptions {
  /** weir decides by this text, or by the policy of the daemon with this name. Without it, weir counts. */
  policy?: string;
}

export class ExpressStore {
  constructor(options: StoreOptions);
  readonly localKeys: false;
  readonly prefix: string;
  init(options: any): void;
  get(key: string): Promise<{ totalHits: number; resetTime: Date | undefined } | undefined>;
  increment(key: string): Promise<{ totalHits: number; resetTime: Date | undefined }>;
  decrement(key: string): Promise<void>;
  resetKey(key: string): Promise<void>;
  resetAll(): Promise<void>;
  shutdown(): void;
}

export function fastifyStore(
  options: StoreOptions,
): new (...args: any[]) => {
  incr(
    key: string,
    callback: (error: Error | null, result?: { current: number; ttl: number }) => void,
    timeWindow: number,
    max: number,
  ): void;
  read(
    key: string,
    callback: (error: Error | null, result?: { current: number; ttl: number }) => void,
    timeWindow: number,
    max: number,
  ): void;
  child(routeOptions: any): any;
  close(): void;
};

export class NestStorage {
  constructor(options: StoreOptions);
  increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<{ totalHits: number; timeToExpire: number; isBlocked: boolean; timeToBlockExpire: number }>;
  onApplicationShutdown(): void;
}

export interface FlexibleResult {
  remainingPoints: number;
  msBeforeNext: number;
  consumedPoints: number;
  isFirstInDuration: boolean;
}

export interface FlexibleOptions extends CommonOptions {
  points?: number;
  /** Seconds. */
  duration?: number;
  blockDuration?: number;
  keyPrefix?: string;
  /** In place of points and duration. */
  policy?: string;
}

export class FlexibleLimiter {
  constructor(options: FlexibleOptions);
  readonly points: number;
  readonly duration: number;
  readonly blockDuration: number;
  readonly keyPrefix: string;
  /** Rejects with a FlexibleResult if the limit is reached, and with an Error if no decision was made. */
  consume(key: string, points?: number): Promise<FlexibleResult>;
  penalty(key: string, points?: number): Promise<FlexibleResult>;
  reward(key: string, points?: number): Promise<FlexibleResult>;
  get(key: string): Promise<FlexibleResult | null>;
  block(key: string, seconds: number): Promise<FlexibleResult>;
  delete(key: string): Promise<boolean>;
  close(): void;
}

export class WeirError extends Error {
  readonly code: string;
}
export class OptionError extends WeirError {}
export class PolicyError extends WeirError {}
export class UnsupportedError extends WeirError {}
export class ReservationError extends WeirError {}
export class AccessError extends WeirError {}
export class FileError extends WeirError {}
export class UnavailableError extends WeirError {}
export class FullError extends UnavailableError {}
export class DeniedError extends WeirError {
  constructor(decision: Decision);
  readonly decision: Decision;
}
