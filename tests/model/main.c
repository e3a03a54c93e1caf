/* SPDX-License-Identifier: BSD-2-Clause */
/* Explores all scenes. Then weakens each memory order that they use: a scene must fail, unless the
 * order is in the list `kept`.
 *
 *   model_test          a quick run: large scenes are explored in part
 *   model_test --full   explores more of the large scenes, and checks the list `kept`
 *   model_test --lines  prints the orders that the scenes use, as FILE:LINE */

#include "scenes.h"

#include <stdio.h>
#include <string.h>

/* The scenes, the large ones last. */
#define SCENES(X)                                                                                  \
    X(bucket_read)                                                                                 \
    X(bucket_write)                                                                                \
    X(bucket_death)                                                                                \
    X(bucket_death_read)                                                                           \
    X(bucket_undo)                                                                                 \
    X(bucket_torn)                                                                                 \
    X(bucket_torn_write)                                                                           \
    X(table_update)                                                                                \
    X(table_update_death)                                                                          \
    X(table_insert_same)                                                                           \
    X(table_insert_both)                                                                           \
    X(table_insert_look)                                                                           \
    X(table_insert_death)                                                                          \
    X(table_alternate_both)                                                                        \
    X(table_alternate_look)                                                                        \
    X(table_idle)                                                                                  \
    X(table_replace_death)                                                                         \
    X(table_replace_high_death)                                                                    \
    X(table_displace_look)                                                                         \
    X(table_displace_take)                                                                         \
    X(table_watch)                                                                                 \
    X(table_wide)                                                                                  \
    X(table_wide_look)                                                                             \
    X(table_wide_death)                                                                            \
    X(table_many)                                                                                  \
    X(table_journal)                                                                               \
    X(table_move_death)                                                                            \
    X(registry_read)                                                                               \
    X(registry_changes)                                                                            \
    X(registry_same)                                                                               \
    X(registry_both)                                                                               \
    X(registry_death)                                                                              \
    X(registry_replace)                                                                            \
    X(registry_replace_note)                                                                       \
    X(registry_replace_death)                                                                      \
    X(clock_look)                                                                                  \
    X(clock_jump)                                                                                  \
    X(clock_ticks)                                                                                 \
    X(clock_slots)                                                                                 \
    X(clock_death)                                                                                 \
    X(lock_try)                                                                                    \
    X(reserve_expire)                                                                              \
    X(reserve_commit)                                                                              \
    X(reserve_commit_death)                                                                        \
    X(reserve_make)                                                                                \
    X(reserve_make_death)                                                                          \
    X(large_update)                                                                                \
    X(large_insert)                                                                                \
    X(large_update_death)                                                                          \
    X(large_insert_death)                                                                          \
    X(large_grow_death)                                                                            \
    X(large_many_death)                                                                            \
    X(large_drop_death)                                                                            \
    X(large_reset_death)                                                                           \
    X(table_replace_low)                                                                           \
    X(table_replace_high)                                                                          \
    X(table_replace_last)                                                                          \
    X(table_replace_alternate)                                                                     \
    X(table_replace_alternate_high)                                                                \
    X(table_replace_alternate_last)                                                                \
    X(table_displace_death)                                                                        \
    X(bucket_deaths)                                                                               \
    X(bucket_write_read)                                                                           \
    X(bucket_death_reads)                                                                          \
    X(bucket_lock_death)                                                                           \
    X(large_repair_death)

#define DECLARE(name) extern const model_scene model_##name;
SCENES(DECLARE)
#define ADDRESS(name) &model_##name,
static const model_scene *const scenes[] = {SCENES(ADDRESS)};

enum { LEN = sizeof scenes / sizeof *scenes };

/* Orders that no scene needs, and why they stay. */
static const struct {
    const char *name, *reason;
} kept[] = {
    {"bucket.c:restore port_word_store_release(&b->word[i])",
     "every store to a word of a bucket is a release; the restored value is the old one"},
    {"bucket.c:repair port_word_cas_acquire(&r->owner)",
     "the death of the owner orders it as well"},
    {"bucket.c:repair port_word_cas_acquire(&b->word[0])",
     "the death of the owner orders it as well"},
    {"robust_lock.c:take_over port_word_cas_acquire(lock)",
     "the death of the owner orders it as well"},
    {"table_run.c:weir_table_move_take_over port_word_cas_acquire(owner)",
     "the death of the owner orders it as well"},
    {"bucket.h:weir_bucket_unlock port_word_store_release(&b->word[0])",
     "loads under the lock must not move behind it, which is load buffering"},
    {"table_word.c:try_update port_word_store_release(&b->word[1 + i])",
     "every store to a word of a bucket is a release; a newer time of the same key is right"},
    {"bucket.c:weir_bucket_set port_word_store_release(&b->word[word])",
     "every store to a word of a bucket is a release; each layer's newer word is right"},
    {"bucket.c:weir_bucket_set port_word_store_release(&b->word[word + 1])",
     "every store to a word of a bucket is a release; each layer's newer word is right"},
};
static bool kept_used[sizeof kept / sizeof *kept];

static unsigned passed, failed;
static bool used_by[LEN][MODEL_SITES];

static void count(bool good)
{
    passed += good;
    failed += !good;
}

static void run_litmus(void)
{
    for (const model_litmus *l = model_litmus_tests; l->scene.name; l++) {
        model_result r = model_explore(&l->scene, UINT64_MAX);
        bool good = (r.failure != NULL) == l->can_fail;
        count(good);
        if (!good)
            printf("litmus test %s: expected %s\n", l->scene.name,
                   l->can_fail ? "a failure" : "no failure");
    }
}

static void run_scene(unsigned i, uint64_t max)
{
    model_forget_use();
    model_result r = model_explore(scenes[i], max);
    if (!r.failure && !r.complete)
        r.failure = model_sample(scenes[i], max).failure;
    count(!r.failure);
    printf("%s: %llu executions%s%s\n", scenes[i]->name, (unsigned long long)r.executions,
           r.complete  ? ", complete"
           : r.failure ? ": "
                       : ", in part",
           r.failure ? r.failure : "");
    if (r.failure)
        model_print_trace();
    for (unsigned site = 1; model_site_at(site).name; site++)
        used_by[i][site] = model_site_at(site).used;
}

static const char *reason_of(const char *name)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strcmp(kept[i].name, name) == 0) {
            kept_used[i] = true;
            return kept[i].reason;
        }
    }
    return NULL;
}

/* Returns the scene that fails without the order; NULL if there is none. */
static const char *scene_for(unsigned site, uint64_t max)
{
    const char *ret = NULL;
    model_weaken(site);
    for (unsigned i = 0; i < LEN && !ret; i++) {
        if (used_by[i][site] && model_sample(scenes[i], max).failure)
            ret = scenes[i]->name;
    }
    for (unsigned i = 0; i < LEN && !ret; i++) {
        if (used_by[i][site] && model_explore(scenes[i], max).failure)
            ret = scenes[i]->name;
    }
    model_weaken(0);
    return ret;
}

static void weaken(unsigned site, uint64_t max, bool full)
{
    const char *name = model_site_at(site).name, *reason = reason_of(name);
    if (reason && !full)
        return;
    const char *failed_scene = scene_for(site, max);
    count(!failed_scene == !!reason);
    printf("%s: %s%s\n", name,
           !failed_scene == !!reason ? ""
           : reason                  ? "is listed as kept, but a scene needs it: "
                                     : "no scene needs it",
           failed_scene ? failed_scene
           : reason     ? reason
                        : "");
}

static bool is_strong(unsigned site)
{
    for (unsigned i = 0; i < LEN; i++) {
        if (used_by[i][site])
            return model_site_at(site).order != MODEL_RELAXED &&
                   strncmp(model_site_at(site).name, "scenes_", 7) != 0;
    }
    return false;
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    bool lines = argc > 1 && strcmp(argv[1], "--lines") == 0;
    uint64_t max = lines ? 200 : full ? 60000 : 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    run_litmus();
    for (unsigned i = 0; i < LEN; i++)
        run_scene(i, max);
    for (unsigned site = 1; model_site_at(site).name; site++) {
        model_site_info info = model_site_at(site);
        if (is_strong(site) && lines)
            printf("%.*s:%d\n", (int)strcspn(info.name, ":"), info.name, info.line);
        else if (is_strong(site))
            weaken(site, full ? 8000 : 3000, full);
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept && full; i++) {
        if (!kept_used[i])
            printf("%s is listed as kept, but does not exist\n", kept[i].name);
        failed += !kept_used[i];
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0;
}
