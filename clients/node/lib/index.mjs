// SPDX-License-Identifier: BSD-2-Clause
import weir from './index.js';

export const {
  Limiter,
  ipKey,
  rateLimit,
  ExpressStore,
  fastifyRateLimit,
  fastifyStore,
  NestStorage,
  FlexibleLimiter,
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
} = weir;
