#include "cmd/cmd.h"
int weir_cmd_replay(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 1;
}
