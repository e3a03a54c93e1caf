/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One limit for several machines, with its state in Redis. The first argument is the URL of the
 * server. First a blocking call, then three async calls. */

#include <weir/weir_redis.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CALLS = 3 };

typedef struct answers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int came, allowed;
} answers;

/* The callback of an async call. The thread of the Redis connections calls it, so it must not
 * block. */
static void on_answer(void *ctx, weir_status status, const weir_redis_answer *answer)
{
    answers *a = ctx;
    pthread_mutex_lock(&a->lock);
    a->came++;
    a->allowed += status == WEIR_OK && answer->decision.allowed;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static int ask(weir_redis *redis, const weir_policy *policy)
{
    weir_redis_answer answer;
    if (weir_redis_reset(redis, policy, "alice", 5) != WEIR_OK ||
        weir_redis_check(redis, policy, "alice", 5, 2, &answer) != WEIR_OK)
        return 1;
    printf("blocking: %s, %" PRId64 " remaining%s\n",
           answer.decision.allowed ? "allowed" : "denied", answer.decision.remaining,
           answer.by_error ? ", without Redis" : "");

    answers a = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    for (int i = 0; i < CALLS; i++)
        if (weir_redis_check_async(redis, policy, "alice", 5, 1, on_answer, &a) != WEIR_OK)
            return 1;
    pthread_mutex_lock(&a.lock);
    while (a.came < CALLS)
        pthread_cond_wait(&a.changed, &a.lock);
    printf("async: %d of %d allowed\n", a.allowed, a.came);
    pthread_mutex_unlock(&a.lock);
    return 0;
}

int main(int argc, char **argv)
{
    static const char text[] = "gcra 3/h burst 3";
    const char *url = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
    weir_redis_error error;
    weir_policy policy;
    weir_redis *redis;
    const weir_redis_options options = {.urls = &url,
                                        .urls_len = 1,
                                        .deadline_ns = 2000000000,
                                        .on_error = WEIR_REDIS_CLOSED,
                                        .ret_error = &error};
    if (weir_policy_parse(&policy, text, strlen(text), NULL, NULL) != WEIR_OK)
        return 1;
    if (weir_redis_open(&redis, &options) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int failed = ask(redis, &policy);
    weir_redis_close(redis);
    return failed;
}
