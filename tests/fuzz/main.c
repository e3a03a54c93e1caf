/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs a fuzz target on every file of its corpus, without libFuzzer, so that `make check` does it
 * with any compiler. Fails if the corpus has no file.
 *
 *   NAME_corpus tests/fuzz/corpus/NAME */

#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { INPUT_MAX = 1 << 20 };

static void run(const char *dir, const char *name)
{
    static uint8_t bytes[INPUT_MAX];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fprintf(stderr, "%s\n", path); /* the last path in the output is the input that failed */
    FILE *file = fopen(path, "rb");
    CHECK(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    CHECK(feof(file));
    fclose(file);
    uint8_t *input = exact_copy(bytes, len);
    LLVMFuzzerTestOneInput(input, len);
    free(input);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    DIR *dir = opendir(argv[1]);
    int inputs = 0;
    if (!dir) {
        fprintf(stderr, "%s: expected a directory with inputs: %s\n", argv[1], strerror(errno));
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        run(argv[1], entry->d_name);
        inputs++;
    }
    closedir(dir);
    if (inputs == 0)
        fprintf(stderr, "%s: expected inputs, found none\n", argv[1]);
    printf("%d cases, %d failed\n", inputs, inputs == 0);
    return inputs == 0;
}
