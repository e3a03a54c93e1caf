/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of the client commands. It knows what --help prints, and not how requests are sent. */

#include "cmd/client/command.h"
#include "cmd/client/target.h"

#include <stdlib.h>
#include <string.h>

#define HELP_NAME "POLICY is the name of one of the daemon's policies.\n\n"
#define HELP_KEEP                                                                                  \
    "  --keep M         what must remain for others: units, or a share such as 20%\n"              \
    "                   (default 0)\n"
#define HELP_TTL                                                                                   \
    "  --ttl TIME       when it expires, from now: 30s, 500ms, 1h30m; at most the lease of\n"      \
    "                   a policy with a concurrent layer (default: this lease)\n"
#define HELP_ID   "ID is what weir reserve printed.\n\n"
#define HELP_TEXT "  --text           POLICY is a policy text, like 'gcra 100/s burst 20'\n"
#define HELP_SERVER                                                                                \
    "  --server SERVER  where the daemon is: HOST:PORT, a PORT of this machine,\n"                 \
    "                   rediss://HOST:PORT for TLS, or the path of its socket\n"                   \
    "                   (default: $WEIR_SERVER, else " CLIENT_SERVER ")\n"                         \
    "  --tls            encrypt the connection, and check the server's certificate\n"              \
    "  --ca FILE        certificates of the authorities to trust, in PEM format\n"                 \
    "                   (default: those of the system)\n"                                          \
    "  --cert FILE      the client's certificate, in PEM format; with --key\n"                     \
    "  --key FILE       the private key of the certificate, in PEM format\n"                       \
    "  --server-name NAME  the name in the server's certificate (default: the host)\n"             \
    "  --user NAME      log in as this user; requires a password\n"                                \
    "  --password-file FILE  a file whose first line is the password\n"                            \
    "                   (default: $WEIR_PASSWORD)\n"                                               \
    "  --timeout TIME   how long to wait for the reply: 5s, 250ms (default 5s)\n"
#define HELP_JSON "  --json           print the reply as one JSON object\n"
#define HELP_END                                                                                   \
    "  --help           print this text\n"                                                         \
    "\n"                                                                                           \
    "If the daemon has a password, put it in the environment variable WEIR_PASSWORD or in a\n"     \
    "file. No option takes a password, because other users can see the arguments of a program.\n"
#define HELP_DONE "Exit status: 0 success, 1 failure, 2 wrong usage.\n\n"

static const client_command take = {
    "weir take",
    "Usage: weir take [OPTION]... POLICY KEY\n"
    "\n"
    "Asks a running daemon whether a request of KEY may pass. Charges KEY if it may.\n" HELP_NAME
    "  --cost N         what the request costs, 0 to 2147483647 (default 1)\n" HELP_KEEP HELP_TEXT
        HELP_SERVER HELP_JSON HELP_END
    "Exit status: 0 allowed, 3 denied, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir take api alice\n"
    "  weir take --cost 65536 upload alice\n"
    "  weir take --keep 20% provider bank\n"
    "  weir take --text 'sliding-log 5/m' login:alice || echo 'not now'\n"
    "  weir take --server /run/weir/weir.sock --json api alice\n",
    "WEIR.TAKE",
    CLIENT_REPLY_DECISION,
    HAS_TEXT | HAS_COST | HAS_KEEP | HAS_JSON,
    2,
    {NULL},
};

static const client_command peek = {
    "weir peek",
    "Usage: weir peek [OPTION]... POLICY KEY\n"
    "\n"
    "Asks a running daemon whether a request of KEY would be allowed. Charges nothing.\n" HELP_NAME
    "  --cost N         what the request would cost, 0 to 2147483647 (default 1)\n" HELP_KEEP
        HELP_TEXT HELP_SERVER HELP_JSON HELP_END
    "Exit status: 0 it would be allowed, 3 denied, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir peek api alice\n"
    "  weir peek --cost 65536 --json upload alice\n"
    "  weir peek --text 'sliding-log 5/m' login:alice\n",
    "WEIR.PEEK",
    CLIENT_REPLY_DECISION,
    HAS_TEXT | HAS_COST | HAS_KEEP | HAS_JSON,
    2,
    {NULL},
};

static const client_command refund = {
    "weir refund",
    "Usage: weir refund [OPTION]... POLICY KEY\n"
    "\n"
    "Gives units back that KEY was charged. KEY never gets more than its full limit.\n" HELP_NAME
    "  --cost N         how many units, 0 to 2147483647 (default 1)\n" HELP_TEXT HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir refund api alice\n"
    "  weir refund --cost 65536 upload alice\n",
    "WEIR.REFUND",
    CLIENT_REPLY_REFUND,
    HAS_TEXT | HAS_COST | HAS_JSON,
    2,
    {NULL},
};

static const client_command charge = {
    "weir charge",
    "Usage: weir charge [OPTION]... POLICY KEY\n"
    "\n"
    "Charges units that KEY has used already, whether they fit or not. If they do not fit, KEY is\n"
    "in debt, and is denied until the debt is paid off.\n" HELP_NAME
    "  --cost N         how many units, 0 to 2147483647 (default 1)\n" HELP_TEXT HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir charge api alice\n"
    "  weir charge --cost 1200 tokens alice\n",
    "WEIR.CHARGE",
    CLIENT_REPLY_CHARGE,
    HAS_TEXT | HAS_COST | HAS_JSON,
    2,
    {NULL},
};

static const client_command reserve = {
    "weir reserve",
    "Usage: weir reserve [OPTION]... POLICY KEY\n"
    "\n"
    "Charges KEY provisionally, and prints an ID for weir commit, cancel and renew. Without\n"
    "these, the reservation expires after the TTL, and KEY gets all units back. Until then, a\n"
    "concurrent layer holds the units.\n" HELP_NAME
    "  --cost N         how many units, 0 to 2147483647 (default 1)\n" HELP_TTL HELP_TEXT
        HELP_SERVER HELP_JSON HELP_END
    "Exit status: 0 allowed, 3 denied, 1 failure, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  id=$(weir reserve reports alice | tail -n 1)\n"
    "  weir reserve --cost 4000 --ttl 1m tokens alice\n",
    "WEIR.RESERVE",
    CLIENT_REPLY_RESERVE,
    HAS_TEXT | HAS_COST | HAS_TTL | HAS_JSON,
    2,
    {NULL},
};

static const client_command renew = {
    "weir renew",
    "Usage: weir renew [OPTION]... ID\n"
    "\n"
    "Extends a reservation: it then expires one TTL from now.\n" HELP_ID HELP_TTL HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir renew \"$id\"\n"
    "  weir renew --ttl 10s \"$id\"\n",
    "WEIR.RENEW",
    CLIENT_REPLY_RENEW,
    HAS_TTL | HAS_JSON,
    1,
    {"ID"},
};

static const client_command commit = {
    "weir commit",
    "Usage: weir commit [OPTION]... ID N\n"
    "\n"
    "Settles a reservation: charges the N units that were used instead of the reserved ones,\n"
    "whether they fit or not. A concurrent layer gets all units back.\n" HELP_ID HELP_SERVER
        HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir commit \"$id\" 1200\n",
    "WEIR.COMMIT",
    CLIENT_REPLY_SETTLE,
    HAS_JSON,
    2,
    {"ID", "N"},
};

static const client_command cancel = {
    "weir cancel",
    "Usage: weir cancel [OPTION]... ID\n"
    "\n"
    "Gives all units of a reservation back.\n" HELP_ID HELP_SERVER HELP_JSON HELP_END HELP_DONE
    "Examples:\n"
    "  weir cancel \"$id\"\n",
    "WEIR.CANCEL",
    CLIENT_REPLY_SETTLE,
    HAS_JSON,
    1,
    {"ID"},
};

static const client_command reset = {
    "weir reset",
    "Usage: weir reset [OPTION]... POLICY KEY\n"
    "       weir reset [OPTION]... POLICY --all\n"
    "\n"
    "Resets KEY: its full limit is available again. With --all, resets all keys of POLICY.\n"
    "KEY is not a pattern. This resets the key that is named '*': weir reset api -- '*'\n" HELP_NAME
    "  --all            reset all keys of POLICY at once\n" HELP_TEXT HELP_SERVER HELP_JSON HELP_END
        HELP_DONE "Examples:\n"
    "  weir reset api alice\n"
    "  weir reset api --all\n"
    "  weir reset --server 10.0.0.5:6380 login alice\n",
    "WEIR.RESET",
    CLIENT_REPLY_RESET,
    HAS_TEXT | HAS_JSON | HAS_ALL,
    2,
    {NULL},
};

static const client_command explain = {
    "weir explain",
    "Usage: weir explain [OPTION]... POLICY KEY\n"
    "\n"
    "Prints which limit applies to KEY and why, how much of it remains, and when the\n"
    "next request may pass. Charges nothing.\n" HELP_NAME HELP_TEXT HELP_SERVER HELP_END HELP_DONE
    "Examples:\n"
    "  weir explain api alice\n"
    "  weir explain --text 'sliding-log 5/m' login:alice\n",
    "WEIR.EXPLAIN",
    CLIENT_REPLY_LINES,
    HAS_TEXT,
    2,
    {NULL},
};

static const client_command top = {
    "weir top",
    "Usage: weir top [OPTION]... [POLICY]\n"
    "\n"
    "Shows what the daemon decides now, on a live screen: its policies, and the keys that\n"
    "the chosen policy denied most. Press ? for its commands, q to quit. If standard\n"
    "input or output is not a terminal, prints one table, of the next interval; with\n"
    "--interval or --count, a table for each interval.\n"
    "With POLICY, lists the keys with the most denied units in the last few minutes.\n" HELP_NAME
    "  --allowed        list the keys with the most allowed units\n"
    "  --keys N         how many keys, 1 to top.keys of the configuration (default 10)\n"
    "  --live           show the screen, with POLICY chosen\n"
    "  --interval TIME  time between two updates, 100ms to 86400s (default 1s)\n"
    "  --count N        exit after N updates (default: until q or Ctrl-C)\n" HELP_SERVER HELP_JSON
        HELP_END HELP_DONE "Examples:\n"
    "  weir top\n"
    "  weir top --interval 10s --count 6 | tee load.txt\n"
    "  weir top api\n"
    "  weir top --allowed --keys 20 api\n",
    "WEIR.TOP",
    CLIENT_REPLY_TOP,
    HAS_TOP | HAS_JSON,
    1,
    {NULL},
};

static const client_command policies = {
    "weir policies",
    "Usage: weir policies [OPTION]...\n"
    "\n"
    "Lists the named policies of a running daemon.\n"
    "\n" HELP_SERVER HELP_JSON HELP_END HELP_DONE "Examples:\n"
    "  weir policies\n"
    "  weir policies --server 10.0.0.5:6380 --json\n",
    "WEIR.POLICY",
    CLIENT_REPLY_POLICIES,
    HAS_JSON,
    0,
    {NULL},
};

static const client_command ping = {
    "weir ping",
    "Usage: weir ping [OPTION]...\n"
    "\n"
    "Prints PONG if a running daemon answers: the health check of a container.\n"
    "\n" HELP_SERVER HELP_END HELP_DONE "Examples:\n"
    "  weir ping\n"
    "  weir ping --server 10.0.0.5:6380 --timeout 1s\n",
    "PING",
    CLIENT_REPLY_PONG,
    0,
    0,
    {NULL},
};

const client_command *client_command_of(const char *name)
{
    static const client_command *const all[] = {&take,  &peek,     &refund, &charge, &reserve,
                                                &renew, &commit,   &cancel, &reset,  &explain,
                                                &top,   &policies, &ping};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i]->name + strlen("weir "), name) == 0)
            return all[i];
    }
    abort(); /* main.c has a client command that this file does not have */
}
