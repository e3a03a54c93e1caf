/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir state`: the command line, opening the file, and the options that take few lines. */

#include "cmd/state/state.h"

#include "cmd/kit/commands.h"
#include "cmd/kit/options.h"
#include "cmd/kit/sigbus.h"
#include "port/assert.h"
#include "port/file.h"
#include "port/port.h"
#include "service/zone_cache.h"
#include "store/image/file_header.h"
#include "store/siphash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: weir state FILE [--export [--with-secret] | --import LINES | --backup COPY |\n"
    "                        --set-clock]\n"
    "\n"
    "Prints the contents of a state file, which no daemon may have open.\n"
    "\n"
    "  --backup COPY    copy FILE to COPY, even while daemons use FILE. COPY is replaced\n"
    "                   only once the copy is complete\n"
    "  --export         print the contents, one JSON object a line\n"
    "  --with-secret    include the secret, so that a new file can import the lines.\n"
    "                   Keep the lines private: the secret reveals which keys are\n"
    "                   in the file, and allows making keys that collide\n"
    "  --import LINES   import LINES, a file with the output of --export; '-' is\n"
    "                   standard input. FILE may be new\n"
    "  --set-clock      step weir's clock to the wall clock, instead of slewing it.\n"
    "                   After a step forward, keys regain quota for the time skipped.\n"
    "                   After a step back, all keys have their full quota\n"
    "  --help           print this text\n"
    "\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir state /var/lib/weir/state\n"
    "  weir state /var/lib/weir/state --export --with-secret >state.jsonl\n"
    "  weir state /tmp/copy --import state.jsonl\n"
    "  weir state /var/lib/weir/state --backup /backup/weir.state\n";

typedef struct options {
    const char *path, *import, *backup;
    bool export, with_secret, set_clock;
} options;

/* ---- the file -------------------------------------------------------------------------------- */

void state_fingerprint(const uint8_t secret[16], char ret[STATE_FINGERPRINT_MAX])
{
    static const char text[] = "weir state";
    const weir_secret key = {weir_read8(secret), weir_read8(secret + 8)};
    snprintf(ret, STATE_FINGERPRINT_MAX, "%016" PRIx64, weir_siphash(key, text, sizeof text - 1));
}

uint64_t state_memory_bytes(const weir_file_header *head)
{
    return head->parts[WEIR_PART_TABLE].bytes + head->parts[WEIR_PART_LARGE].bytes +
           head->parts[WEIR_PART_RESERVED].bytes;
}

bool state_read_head(const char *path, bool read_only, weir_file_header *ret, bool *ret_absent)
{
    int fd = -1;
    uint64_t bytes = 0;
    int64_t written_ns;
    char what[256] = "cannot read the file";
    port_file_error error = port_file_open(path, PORT_FILE_READ, &fd);
    if (ret_absent)
        *ret_absent = error == PORT_FILE_ABSENT;
    if (error == PORT_FILE_ABSENT && ret_absent)
        return false;
    if (error == PORT_FILE_OK)
        error = port_file_info(fd, &bytes, &written_ns);
    bool good = error == PORT_FILE_OK;
    if (!good)
        snprintf(what, sizeof what, "%s",
                 port_file_error_text(error == PORT_FILE_DENIED ? PORT_FILE_UNREADABLE : error));
    else if (bytes >= sizeof *ret)
        good = port_file_read(fd, ret, sizeof *ret);
    good = good && weir_file_header_check(ret, bytes, read_only, what, sizeof what);
    port_file_close(fd);
    if (!good)
        fprintf(stderr, "weir state: %s: %s\n", path, what);
    return good;
}

weir_status state_open(const char *path, const weir_file_header *head, weir_store_options how,
                       state_file *ret, weir_store_error *ret_error)
{
    weir_image_partition is[WEIR_PARTITIONS_MAX];
    weir_store_partition partitions[WEIR_PARTITIONS_MAX];
    *ret = (state_file){.path = path, .head = *head};
    how.file = path;
    how.large_bytes = (size_t)head->parts[WEIR_PART_LARGE].bytes;
    how.memory_bytes = (size_t)state_memory_bytes(head);
    how.secret = head->secret;
    how.partitions = partitions;
    how.partitions_len = weir_partitions_get(head, is);
    WEIR_ASSERT(how.partitions_len <= WEIR_PARTITIONS_MAX);
    for (size_t i = 0; i < how.partitions_len; i++)
        partitions[i] = (weir_store_partition){is[i].name, is[i].table_bytes, is[i].large_bytes};
    how.ret_error = ret_error;
    how.ret_opened = &ret->opened;
    how.trust_others = true; /* the user named the file, often as root: accept any owner */
    const log_target log = {.fd = 2};
    weir_status st = weir_store_open(&ret->store, &how);
    if (st != WEIR_OK)
        return st;
    sigbus_watch(&log, path, ret->store);
    weir_store_repair_locks(ret->store);
    return WEIR_OK;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static bool note_text(void *ctx, uint64_t id, const char *text, size_t len)
{
    weir_store_note_text(ctx, id, text, len);
    return true;
}

/* Empties the file but for its secret and the texts of the policies. To step weir's clock back, the
 * file must have no states, since time never goes back for a state. */
static weir_status empty_file(state_file *f, const weir_zones *zones, weir_store_error *ret_error)
{
    weir_store *texts;
    weir_store_options how = {.secret = f->head.secret};
    weir_status st = weir_store_open(&texts, &how);
    if (st != WEIR_OK)
        return st;
    weir_store_policies(f->store, note_text, texts);
    weir_store_close(f->store);
    f->store = NULL;
    how = (weir_store_options){.zones = zones, .reset = true};
    st = state_open(f->path, &f->head, how, f, ret_error);
    if (st == WEIR_OK)
        weir_store_policies(texts, note_text, f->store);
    weir_store_close(texts);
    return st;
}

static int set_clock(state_file *f, const weir_zones *zones)
{
    weir_store_error error = {"out of memory"};
    int64_t time_ns = weir_store_now(f->store), wall_ns = port_now_ns();
    uint64_t ms = (uint64_t)(wall_ns > time_ns ? wall_ns - time_ns : time_ns - wall_ns) / 1000000;
    bool back = wall_ns < time_ns && ms > 0;
    weir_status st = back ? empty_file(f, zones, &error) : WEIR_OK;
    if (st != WEIR_OK) {
        fprintf(stderr, "weir state: %s\n", error.text);
        return 1;
    }
    WEIR_ASSERT(f->store); /* empty_file() has opened it again */
    weir_store_set_time(f->store, wall_ns);
    printf("%s: clock stepped %s by %" PRIu64 ".%03" PRIu64 " s%s\n", f->path,
           back ? "back" : "forward", ms / 1000, ms % 1000,
           back ? "; all keys have their full quota" : "");
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run_on(state_file *f, const options *o, const weir_zones *zones)
{
    WEIR_ASSERT(!o->import && !(o->set_clock && o->export));
    if (o->set_clock)
        return set_clock(f, zones);
    if (o->export)
        return state_export(f, o->with_secret);
    state_print(f);
    return 0;
}

/* Copies the file. COPY may be absent or a state file: nothing else is replaced. */
static int back_up(const options *o, const weir_zones *zones)
{
    weir_file_header head;
    bool absent;
    uint64_t keys;
    weir_store_error error = {"out of memory"};
    const weir_store_options how = {
        .file = o->path, .zones = zones, .trust_others = true, .ret_error = &error};
    if (!state_read_head(o->backup, true, &head, &absent) && !absent)
        return 1;
    if (weir_store_backup(&how, o->backup, &keys) != WEIR_OK) {
        fprintf(stderr, "weir state: %s\n", error.text);
        return 1;
    }
    printf("%s: %" PRIu64 " keys of %s\n", o->backup, keys, o->path);
    return 0;
}

static int run(const options *o, const weir_zones *zones)
{
    weir_file_header head = {0};
    state_file f;
    weir_store_error error = {"out of memory"};
    if (o->import)
        return state_import(o->path, o->import, zones);
    if (o->backup)
        return back_up(o, zones);
    if (!state_read_head(o->path, !o->set_clock, &head, NULL))
        return 1;
    const weir_store_options how = {.zones = zones, .read_only = !o->set_clock};
    weir_status st = state_open(o->path, &head, how, &f, &error);
    if (st == WEIR_E_BUSY && !o->export && !o->set_clock)
        state_print_head(o->path, &head);
    if (st != WEIR_OK) {
        fprintf(stderr, "weir state: %s\n", error.text);
        return 1;
    }
    int status = run_on(&f, o, zones);
    weir_store_close(f.store);
    return status;
}

/* Checks the command line as a whole; argv has the arguments behind the options. */
static bool check_options(int argc, char **argv, options *ret)
{
    const char *problem = NULL, *found = "";
    if (argc == 0) {
        problem = "FILE is missing, like /var/lib/weir/state";
    } else if (argc > 1) {
        problem = "expected one FILE, also found ";
        found = argv[1];
    } else if (ret->export + ret->set_clock + (ret->import != NULL) + (ret->backup != NULL) > 1) {
        problem = "expected only one of --export, --import, --backup and --set-clock";
    } else if (ret->with_secret && !ret->export) {
        problem = "--with-secret needs --export";
    }
    ret->path = argv[0];
    if (problem)
        fprintf(stderr, "weir state: %s%s; see weir state --help\n", problem, found);
    return !problem;
}

static bool read_options(int argc, char **argv, options *ret, int *ret_status)
{
    enum { EXPORT = 1000, WITH_SECRET, IMPORT, BACKUP, SET_CLOCK };
    static const struct option known[] = {{"export", no_argument, NULL, EXPORT},
                                          {"with-secret", no_argument, NULL, WITH_SECRET},
                                          {"import", required_argument, NULL, IMPORT},
                                          {"backup", required_argument, NULL, BACKUP},
                                          {"set-clock", no_argument, NULL, SET_CLOCK},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    optind = 0;
    *ret_status = 2;
    for (int c; (c = options_next("weir state", argc, argv, known)) != -1;) {
        switch (c) {
        case EXPORT:
            ret->export = true;
            break;
        case WITH_SECRET:
            ret->with_secret = true;
            break;
        case IMPORT:
            ret->import = optarg;
            break;
        case BACKUP:
            ret->backup = optarg;
            break;
        case SET_CLOCK:
            ret->set_clock = true;
            break;
        case 'h':
            fputs(usage, stdout);
            *ret_status = 0;
            return false;
        default:
            return false;
        }
    }
    return check_options(argc - optind, argv + optind, ret);
}

int weir_cmd_state(int argc, char **argv)
{
    options o = {0};
    int status;
    if (!read_options(argc, argv, &o, &status))
        return status;
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir state: out of memory\n", stderr);
        return 1;
    }
    weir_zones zones = weir_zone_cache_zones(cache);
    status = run(&o, &zones);
    weir_zone_cache_close(cache);
    return status;
}
