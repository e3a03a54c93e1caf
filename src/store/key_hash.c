/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One round of AES is SubBytes, ShiftRows, MixColumns and AddRoundKey. The processor's AES
 * instruction does all four; for processors without it there is a version in plain C. */

#include "store/key_hash.h"

#include "port/assert.h"
#include "port/cpu.h"

typedef weir_hash_block block;

/* ---- reading keys ---------------------------------------------------------------------------- */

static inline uint64_t with_class(uint64_t hash, uint64_t policy_id)
{
    return hash << 6 | policy_id >> 58;
}

static inline uint64_t read4(const uint8_t *p)
{
    return p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

/* Reads fewer than 16 bytes. Different inputs of the same length give different blocks. */
static inline block read_short(const uint8_t *p, size_t len)
{
    WEIR_ASSERT(len >= 1 && len < 16);
    if (len >= 8)
        return (block){{weir_read8(p), weir_read8(p + len - 8)}};
    if (len >= 4)
        return (block){{read4(p), read4(p + len - 4)}};
    return (block){{p[0] | (uint64_t)p[len / 2] << 8 | (uint64_t)p[len - 1] << 16, 0}};
}

/* Reads a key longer than 15 bytes as overlapping blocks, from both ends inwards. Returns the
 * number of blocks, 2 or 4. */
static inline int read_long(const weir_hash_keys *keys, const uint8_t *p, size_t len,
                            block ret[WEIR_HASH_LANES])
{
    WEIR_ASSERT(len >= 16);
    ret[0] = (block){{weir_read8(p), weir_read8(p + 8)}};
    ret[1] = (block){{weir_read8(p + len - 16), weir_read8(p + len - 8)}};
    if (len <= 32)
        return 2;
    if (len <= 64) {
        ret[2] = (block){{weir_read8(p + 16), weir_read8(p + 24)}};
        ret[3] = (block){{weir_read8(p + len - 32), weir_read8(p + len - 24)}};
    } else {
        ret[2] = (block){{weir_siphash(keys->first, p, len), weir_siphash(keys->second, p, len)}};
        ret[3] = (block){{0, 0}};
    }
    return 4;
}

/* Whether two requests have the same key. Under an attack the same key comes again and again, and
 * comparing it is cheaper than hashing it. Returns false for keys that are not 8 to 32 bytes
 * long. */
static inline bool same_key(const weir_store_request *a, const weir_store_request *b)
{
    if (a->key_len != b->key_len || a->policy_id != b->policy_id || a->key_len - 8 > 24 ||
        !a->key || !b->key)
        return false;
    const uint8_t *p = a->key, *q = b->key;
    size_t len = a->key_len;
    if (weir_read8(p) != weir_read8(q) || weir_read8(p + len - 8) != weir_read8(q + len - 8))
        return false;
    return len <= 16 || (weir_read8(p + 8) == weir_read8(q + 8) &&
                         weir_read8(p + len - 16) == weir_read8(q + len - 16));
}

/* ---- in plain C ------------------------------------------------------------------------------ */

static uint8_t twice(uint8_t x)
{
    return (uint8_t)(x << 1 ^ (x >> 7) * 0x1b);
}

static uint8_t times(uint8_t x, uint8_t y)
{
    uint8_t product = 0;
    for (; y; y >>= 1, x = twice(x))
        product ^= (uint8_t)(y & 1 ? x : 0);
    return product;
}

/* The S-box: the inverse x^254 in the field, then the affine map. */
static uint8_t substitute(uint8_t x)
{
    uint8_t inverse = 1, power = x;
    for (int bit = 1; bit < 8; bit++) {
        power = times(power, power);
        inverse = times(inverse, power);
    }
    uint8_t y = inverse;
    for (int i = 1; i <= 4; i++)
        y ^= (uint8_t)(inverse << i | inverse >> (8 - i));
    return y ^ 0x63;
}

static uint8_t byte_of(const block *b, unsigned i)
{
    return (uint8_t)(b->word[i / 8] >> (i % 8 * 8));
}

static block round_plain(const uint8_t box[256], block x, const block *key)
{
    block y = *key;
    for (unsigned column = 0; column < 4; column++) {
        uint8_t s[4];
        for (unsigned row = 0; row < 4; row++)
            s[row] = box[byte_of(&x, (column + row) % 4 * 4 + row)];
        for (unsigned row = 0; row < 4; row++) {
            uint8_t mixed = (uint8_t)(twice(s[row]) ^ twice(s[(row + 1) % 4]) ^ s[(row + 1) % 4] ^
                                      s[(row + 2) % 4] ^ s[(row + 3) % 4]);
            unsigned at = column * 4 + row;
            y.word[at / 8] ^= (uint64_t)mixed << (at % 8 * 8);
        }
    }
    return y;
}

static block lane_plain(const uint8_t box[256], block x, const block keys[1 + WEIR_HASH_ROUNDS])
{
    x.word[0] ^= keys[0].word[0];
    x.word[1] ^= keys[0].word[1];
    for (int i = 1; i <= WEIR_HASH_ROUNDS; i++)
        x = round_plain(box, x, &keys[i]);
    return x;
}

uint64_t weir_hash_plain(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                         size_t len)
{
    const uint8_t *p = key;
    block b[WEIR_HASH_LANES], sum = {{policy_id, len}};
    int lanes = 1;
    if (len < 16)
        b[0] = read_short(p, len);
    else
        lanes = read_long(keys, p, len, b);
    for (int i = 0; i < lanes; i++) {
        block x = lane_plain(keys->box, b[i], keys->lane[i]);
        sum.word[0] ^= x.word[0];
        sum.word[1] ^= x.word[1];
    }
    for (int i = 0; i < WEIR_HASH_ROUNDS; i++)
        sum = round_plain(keys->box, sum, &keys->sum[i]);
    return with_class(sum.word[0], policy_id);
}

/* ---- with the AES instruction ---------------------------------------------------------------- */

#ifdef PORT_AES
PORT_AES static inline __m128i key_of(const block *b)
{
    return _mm_loadu_si128((const __m128i *)b);
}

PORT_AES static inline __m128i lane_aes(__m128i x, const block keys[1 + WEIR_HASH_ROUNDS])
{
    x = _mm_xor_si128(x, key_of(&keys[0]));
    x = _mm_aesenc_si128(x, key_of(&keys[1]));
    x = _mm_aesenc_si128(x, key_of(&keys[2]));
    x = _mm_aesenc_si128(x, key_of(&keys[3]));
    return _mm_aesenc_si128(x, key_of(&keys[4]));
}

PORT_AES static inline __m128i bytes16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

PORT_AES static inline uint64_t hash_aes(const weir_hash_keys *keys, uint64_t policy_id,
                                         const uint8_t *p, size_t len)
{
    __m128i sum = _mm_set_epi64x((long long)len, (long long)policy_id);
    if (len >= 16 && len <= 32) {
        __m128i head = lane_aes(bytes16(p), keys->lane[0]);
        __m128i tail = lane_aes(bytes16(p + len - 16), keys->lane[1]);
        sum = _mm_xor_si128(sum, _mm_xor_si128(head, tail));
    } else if (len < 16) {
        block b = read_short(p, len);
        sum = _mm_xor_si128(sum, lane_aes(key_of(&b), keys->lane[0]));
    } else {
        block b[WEIR_HASH_LANES];
        read_long(keys, p, len, b);
        for (int i = 0; i < WEIR_HASH_LANES; i++)
            sum = _mm_xor_si128(sum, lane_aes(key_of(&b[i]), keys->lane[i]));
    }
    for (int i = 0; i < WEIR_HASH_ROUNDS; i++)
        sum = _mm_aesenc_si128(sum, key_of(&keys->sum[i]));
    return with_class((uint64_t)_mm_cvtsi128_si64(sum), policy_id);
}

PORT_AES uint64_t weir_hash_aes(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                                size_t len)
{
    return hash_aes(keys, policy_id, key, len);
}

PORT_AES static void hash_requests_aes(const weir_hash_keys *keys,
                                       const weir_store_request *requests, size_t n,
                                       uint64_t *ret_hashes)
{
    for (size_t i = 0; i < n; i++) {
        const weir_store_request *r = &requests[i];
        if (i > 0 && same_key(r, r - 1))
            ret_hashes[i] = ret_hashes[i - 1];
        else
            ret_hashes[i] = weir_good_key(r->key, r->key_len)
                                ? hash_aes(keys, r->policy_id, r->key, r->key_len)
                                : 0;
    }
}
#else
uint64_t weir_hash_aes(const weir_hash_keys *keys, uint64_t policy_id, const void *key, size_t len)
{
    return weir_hash_plain(keys, policy_id, key, len); /* never called */
}
#endif

/* ---- keys and batches ------------------------------------------------------------------------ */

static void derive(weir_secret secret, uint8_t *counter, block *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int half = 0; half < 2; half++) {
            uint8_t number = (*counter)++;
            ret[i].word[half] = weir_siphash(secret, &number, 1);
        }
    }
}

void weir_hash_init(weir_hash_keys *ret, weir_secret secret)
{
    uint8_t counter = 0;
    block long_keys[2];
    derive(secret, &counter, &ret->lane[0][0], WEIR_HASH_LANES * (1 + WEIR_HASH_ROUNDS));
    derive(secret, &counter, ret->sum, WEIR_HASH_ROUNDS);
    derive(secret, &counter, long_keys, 2);
    ret->first = (weir_secret){long_keys[0].word[0], long_keys[0].word[1]};
    ret->second = (weir_secret){long_keys[1].word[0], long_keys[1].word[1]};
    for (unsigned i = 0; i < sizeof ret->box; i++)
        ret->box[i] = substitute((uint8_t)i);
    ret->has_aes = port_has_aes();
    ret->folded = false;
    ret->folded_aes = false;
}

void weir_hash_fold(weir_hash_keys *keys)
{
    keys->folded = true;
    keys->folded_aes = keys->has_aes;
    keys->has_aes = false;
}

uint64_t weir_hash_other(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                         size_t len)
{
    uint64_t hash = keys->folded_aes ? weir_hash_aes(keys, policy_id, key, len)
                                     : weir_hash_plain(keys, policy_id, key, len);
    return keys->folded ? weir_fold(hash) : hash;
}

void weir_hash_requests(const weir_hash_keys *keys, const weir_store_request *requests, size_t n,
                        uint64_t *ret_hashes)
{
#ifdef PORT_AES
    if (keys->has_aes) {
        hash_requests_aes(keys, requests, n, ret_hashes);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) {
        const weir_store_request *r = &requests[i];
        ret_hashes[i] = weir_good_key(r->key, r->key_len)
                            ? weir_hash_other(keys, r->policy_id, r->key, r->key_len)
                            : 0;
    }
}
