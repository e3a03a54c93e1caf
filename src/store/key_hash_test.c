/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hash of keys: the standard's example of an AES round, equal results with and without the AES
 * instruction, and the distribution for similar keys. This file includes key_hash.c, to test a
 * single round. */

#include "port/random_kit_test.h"
#include "store/key_hash.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const weir_secret secret = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

static weir_hash_keys keys_of(weir_secret s)
{
    weir_hash_keys keys;
    weir_hash_init(&keys, s);
    return keys;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static block block_of(const char *hex)
{
    block b = {{0, 0}};
    for (unsigned i = 0; i < 16; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
        b.word[i / 8] |= (uint64_t)strtoul(two, NULL, 16) << (i % 8 * 8);
    }
    return b;
}

#ifdef PORT_AES
PORT_AES static block round_hard(block x, const block *key)
{
    __m128i y = _mm_aesenc_si128(key_of(&x), key_of(key));
    return (block){{(uint64_t)_mm_cvtsi128_si64(y), (uint64_t)_mm_extract_epi64(y, 1)}};
}
#endif

/* FIPS 197, appendix B: the states at the start of rounds 1 to 9 and of the next, and the round
 * keys. */
static void rounds_of_the_standard(void **state)
{
    (void)state;
    static const char *const starts[] = {
        "193de3bea0f4e22b9ac68d2ae9f84808", "a49c7ff2689f352b6b5bea43026a5049",
        "aa8f5f0361dde3ef82d24ad26832469a", "486c4eee671d9d0d4de3b138d65f58e7",
        "e0927fe8c86363c0d9b1355085b8be01", "f1006f55c1924cef7cc88b325db5d50c",
        "260e2e173d41b77de86472a9fdd28b25", "5a4142b11949dc1fa3e019657a8c040c",
        "ea835cf00445332d655d98ad8596b0c5", "eb40f21e592e38848ba113e71bc342d2"};
    static const char *const round_keys[] = {
        "a0fafe1788542cb123a339392a6c7605", "f2c295f27a96b9435935807a7359f67f",
        "3d80477d4716fe3e1e237e446d7a883b", "ef44a541a8525b7fb671253bdb0bad00",
        "d4d1c6f87c839d87caf2b8bc11f915bc", "6d88a37a110b3efddbf98641ca0093fd",
        "4e54f70e5f5fc9f384a64fb24ea6dc4f", "ead27321b58dbad2312bf5607f8d292f",
        "ac7766f319fadc2128d12941575c006e"};
    weir_hash_keys keys = keys_of(secret);
    assert_int_equal(keys.box[0x00], 0x63);
    assert_int_equal(keys.box[0x01], 0x7c);
    assert_int_equal(keys.box[0x53], 0xed);
    assert_int_equal(keys.box[0xff], 0x16);
    for (size_t i = 0; i < sizeof round_keys / sizeof round_keys[0]; i++) {
        block key = block_of(round_keys[i]), want = block_of(starts[i + 1]);
        block got = round_plain(keys.box, block_of(starts[i]), &key);
        assert_memory_equal(&got, &want, sizeof got);
#ifdef PORT_AES
        if (!keys.has_aes)
            continue;
        got = round_hard(block_of(starts[i]), &key);
        assert_memory_equal(&got, &want, sizeof got);
#endif
    }
}

/* The hashes of the bytes 0, 1, .. n-1, computed with an independent implementation. State files
 * contain hashes, so these must never change. */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        uint64_t hash;
    } known[] = {
        {1, 0xc23d50b8d6812800},  {2, 0x84c0a001f1f47900},  {3, 0x13bc6580ecfb2800},
        {4, 0x7da50257227bc880},  {7, 0x8758181e71845880},  {8, 0x352e8f95e5162280},
        {15, 0x2dd421796598ef00}, {16, 0x28e0c784d5be33c0}, {17, 0x3bbb2497e8c9dd00},
        {32, 0x9ccb885609998740}, {33, 0x75b526dc1c15aac0}, {48, 0x65707dafa29b66c0},
        {64, 0x0d76d1b7a197f600}, {65, 0x9c4b9e98d14fc100}, {200, 0x54dc3e7676bc20c0},
    };
    weir_hash_keys keys = keys_of(secret);
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(weir_hash_plain(&keys, 0x0123456789abcdef, bytes, known[i].len),
                         known[i].hash);
        assert_int_equal(weir_hash(&keys, 0x0123456789abcdef, bytes, known[i].len), known[i].hash);
    }
}

#ifdef PORT_AES
static void aes_equals_plain_c(void **state)
{
    (void)state;
    enum { LEN = 65536 };
    weir_hash_keys keys = keys_of((weir_secret){1, 2});
    if (!keys.has_aes)
        skip();
    uint8_t *bytes = malloc(LEN + 8);
    uint64_t seed = 1;
    assert_non_null(bytes);
    for (size_t i = 0; i < LEN + 8; i++)
        bytes[i] = (uint8_t)next_random(&seed);
    for (size_t len = 1; len <= 202; len++) {
        for (size_t at = 0; at < 8; at++) {
            size_t n = len <= 200 ? len : LEN - 202 + len;
            /* Of the exact size, so that a sanitizer detects reads beyond it. */
            const uint8_t *own = malloc(n);
            memcpy((uint8_t *)own, bytes + (n < LEN - 1 ? at : 0), n);
            uint64_t id = next_random(&seed);
            assert_int_equal(weir_hash_aes(&keys, id, own, n), weir_hash_plain(&keys, id, own, n));
            free((uint8_t *)own);
        }
    }
    free(bytes);
}
#endif

/* A folded hash is the same with and without the AES instruction, alone and in a batch. Its bits 48
 * to 50 repeat bits 32 to 34. */
static void folded(void **state)
{
    (void)state;
    weir_hash_keys whole = keys_of(secret), fast = whole, slow = whole;
    weir_hash_fold(&fast);
    slow.has_aes = false;
    weir_hash_fold(&slow);
    for (uint64_t key = 1; key < 1000; key++) {
        uint64_t hash = weir_hash(&whole, key << 58, &key, sizeof key);
        uint64_t want = (hash & ~(UINT64_C(7) << 48)) | (hash >> 32 & 7) << 48, got = 0;
        assert_int_equal(weir_hash(&fast, key << 58, &key, sizeof key), want);
        assert_int_equal(weir_hash(&slow, key << 58, &key, sizeof key), want);
        const weir_store_request r = {.policy_id = key << 58, .key = &key, .key_len = sizeof key};
        weir_hash_requests(&fast, &r, 1, &got);
        assert_int_equal(got, want);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Hashes four requests as one batch. Each hash is that of its key alone, 0 for an invalid key. */
static void check_row(const weir_hash_keys *keys, weir_store_request a, weir_store_request b)
{
    const weir_store_request row[] = {a, b, b, a};
    enum { LEN = sizeof row / sizeof row[0] };
    uint64_t hashes[LEN];
    weir_hash_requests(keys, row, LEN, hashes);
    for (size_t i = 0; i < LEN; i++) {
        const weir_store_request *r = &row[i];
        bool good = r->key && r->key_len >= 1 && r->key_len <= WEIR_KEY_MAX;
        assert_int_equal(hashes[i], good ? weir_hash(keys, r->policy_id, r->key, r->key_len) : 0);
    }
}

/* A key beside one that is equal, or differs in one byte, in the length or in the policy, and
 * beside an invalid one. */
static void batches_hash_each_key(void **state)
{
    (void)state;
    enum { LEN_MAX = 40 };
    static char long_key[WEIR_KEY_MAX + 1];
    uint8_t key[LEN_MAX + 1], other[LEN_MAX + 1];
    uint64_t seed = 9;
    weir_hash_keys keys = keys_of(secret);
    bool has_aes = keys.has_aes;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)next_random(&seed);
    for (int aes = 0; aes <= has_aes; aes++) {
        keys.has_aes = aes;
        for (size_t len = 1; len <= LEN_MAX; len++) {
            weir_store_request a = {.policy_id = 7, .key = key, .key_len = len}, b = a;
            b.key = other;
            for (size_t at = 0; at < len; at++) {
                memcpy(other, key, sizeof other);
                check_row(&keys, a, b);
                other[at] ^= (uint8_t)(1 << at % 8);
                check_row(&keys, a, b);
            }
            b = a;
            b.key_len = len + 1;
            check_row(&keys, a, b);
            b = a;
            b.policy_id = 8;
            check_row(&keys, a, b);
            b = a;
            b.key = NULL;
            check_row(&keys, a, b);
            check_row(&keys, b, b);
            b = (weir_store_request){.policy_id = 7, .key = long_key, .key_len = sizeof long_key};
            check_row(&keys, a, b);
        }
    }
}

/* ---- similar keys ---------------------------------------------------------------------------- */

/* Writes key number n of a kind. Returns its length. */
static size_t alike(unsigned kind, uint64_t n, uint8_t ret[136])
{
    memset(ret, kind == 0 ? 0 : 'a', 136);
    switch (kind) {
    /* Zeros, with some bits set in the first 16 bytes and the last; 113 lengths from 17 on. */
    case 0:
        ret[n % 16] |= (uint8_t)(1 << n / 16 % 8);
        ret[16 + n / 128 % 113] = (uint8_t)(n / 128 / 113);
        return 17 + n / 128 % 113;
    case 1: /* a counter of 8 bytes */
        memcpy(ret, &n, sizeof n);
        return 8;
    case 2: /* the same prefix, then a number */
    case 3: /* a number, then the same suffix */
        for (unsigned i = 0; i < 7; i++, n /= 10)
            ret[kind == 2 ? 18 + i : i] = (uint8_t)('0' + n % 10);
        return 25;
    case 4: /* a number in the middle of 60 bytes, or of 100 */
    case 5:
        memcpy(ret + 28, &n, 4);
        return kind == 4 ? 60 : 100;
    default: /* all keys of 1 and 2 bytes, then some of 3 */
        memcpy(ret, &n, 4);
        return n < 1 << 8 ? 1 : n < 1 << 16 ? 2 : 3;
    }
}

enum { KINDS = 7, OF_A_KIND = 400000 };

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* Of 2.8 million similar keys, no two have the same hash. By chance that would happen once in 4
 * million tries. */
static void no_two_alike(void **state)
{
    (void)state;
    weir_hash_keys keys = keys_of(secret);
    uint64_t *hashes = malloc((size_t)KINDS * OF_A_KIND * sizeof *hashes);
    size_t len = 0, twice = 0;
    assert_non_null(hashes);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (uint64_t n = 0; n < OF_A_KIND; n++) {
            uint8_t key[136];
            size_t key_len = alike(kind, n, key);
            hashes[len++] = weir_hash(&keys, 7 + kind, key, key_len);
        }
    }
    qsort(hashes, len, sizeof *hashes, by_value);
    for (size_t i = 1; i < len; i++)
        twice += hashes[i] == hashes[i - 1];
    assert_int_equal(twice, 0);
    free(hashes);
}

/* A chi-squared test over 4096 buckets, for each kind of keys and for each part of the hash that
 * the table uses. Its mean is 4095 and its standard deviation is 90.5. The secret is fixed, so a
 * result within 6 deviations is reproducible. */
static void spread_evenly(void **state)
{
    (void)state;
    enum { BUCKETS = 4096 };
    static const unsigned shifts[] = {52, 36, 20, 6};
    weir_hash_keys keys = keys_of(secret);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        static uint32_t counts[4][BUCKETS];
        memset(counts, 0, sizeof counts);
        for (uint64_t n = 0; n < OF_A_KIND; n++) {
            uint8_t key[136];
            size_t len = alike(kind, n, key);
            uint64_t hash = weir_hash(&keys, 1, key, len);
            for (unsigned s = 0; s < 4; s++)
                counts[s][hash >> shifts[s] & (BUCKETS - 1)]++;
        }
        for (unsigned s = 0; s < 4; s++) {
            double mean = (double)OF_A_KIND / BUCKETS, chi = 0;
            for (unsigned b = 0; b < BUCKETS; b++)
                chi += (counts[s][b] - mean) * (counts[s][b] - mean) / mean;
            if (chi < 4095 - 6 * 90.5 || chi > 4095 + 6 * 90.5)
                fail_msg("kind %u, bits from %u on: %f", kind, shifts[s], chi);
        }
    }
}

/* If one bit of a key or a policy id changes, half of the hash changes: 29 of the 58 bits beside
 * the class, on average over 200 random keys. The standard deviation of the average is 4 /
 * sqrt(200) = 0.28. If one bit of the secret changes, 8 to 56 bits of a hash change. */
static void every_bit_counts(void **state)
{
    (void)state;
    enum { TIMES = 200 };
    static const size_t lens[] = {1, 3, 5, 8, 15, 16, 31, 32, 33, 64, 65, 90};
    uint64_t seed = 5;
    weir_hash_keys keys = keys_of(secret);
    for (size_t l = 0; l < sizeof lens / sizeof lens[0]; l++) {
        for (size_t bit = 0; bit < lens[l] * 8 + 64; bit++) {
            unsigned changed = 0;
            for (int i = 0; i < TIMES; i++) {
                uint8_t key[96];
                for (size_t n = 0; n < sizeof key; n += 8) {
                    uint64_t x = next_random(&seed);
                    memcpy(key + n, &x, sizeof x);
                }
                uint64_t id = next_random(&seed), before = weir_hash(&keys, id, key, lens[l]);
                if (bit < 64)
                    id ^= (uint64_t)1 << bit;
                else
                    key[(bit - 64) / 8] ^= (uint8_t)(1 << bit % 8);
                uint64_t differ = before ^ weir_hash(&keys, id, key, lens[l]);
                changed += (unsigned)__builtin_popcountll(differ >> 6);
            }
            assert_in_range(changed, 27 * TIMES, 31 * TIMES); /* 7 standard deviations */
        }
    }
    for (unsigned bit = 0; bit < 128; bit++) {
        weir_secret other = {secret.k0 ^ (bit < 64 ? (uint64_t)1 << bit : 0),
                             secret.k1 ^ (bit < 64 ? 0 : (uint64_t)1 << (bit - 64))};
        weir_hash_keys changed = keys_of(other);
        assert_in_range(__builtin_popcountll(weir_hash(&keys, 1, "alice", 5) ^
                                             weir_hash(&changed, 1, "alice", 5)),
                        8, 56);
    }
}

/* Equal keys of 8 to 32 bytes are recognised, wherever they lie, and no others. */
static void equal_keys(void **state)
{
    (void)state;
    enum { MOST = 40 };
    for (size_t len = 1; len <= MOST; len++) {
        uint8_t *p = malloc(len), *q = malloc(len);
        for (size_t i = 0; i < len; i++)
            p[i] = q[i] = (uint8_t)(17 * i + len);
        weir_store_request a = {.policy_id = 7, .key = p, .key_len = len}, b = a;
        b.key = q;
        assert_int_equal(same_key(&a, &b), len >= 8 && len <= 32);
        for (size_t i = 0; i < len; i++) {
            q[i] ^= 1;
            assert_false(same_key(&a, &b));
            q[i] ^= 1;
        }
        b.policy_id = 8;
        assert_false(same_key(&a, &b));
        b = a;
        b.key_len = len + 1;
        assert_false(same_key(&a, &b));
        b = (weir_store_request){.policy_id = 7, .key_len = len};
        assert_false(same_key(&a, &b));
        assert_false(same_key(&b, &a));
        free(p);
        free(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_of_the_standard),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(folded),
#ifdef PORT_AES
        cmocka_unit_test(aes_equals_plain_c),
#endif
        cmocka_unit_test(no_two_alike),
        cmocka_unit_test(spread_evenly),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(batches_hash_each_key),
        cmocka_unit_test(equal_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
