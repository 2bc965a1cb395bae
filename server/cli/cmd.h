/* cmd.h - the subcommands of acre. Each gets argv from its own name on and returns an exit status
 * of args.h. Main thread. */
#ifndef SERVER_CLI_CMD_H
#define SERVER_CLI_CMD_H

typedef int cmd_fn(int argc, char **argv);

cmd_fn cmd_serve, cmd_translate, cmd_bench, cmd_inspect, cmd_health, cmd_keys;

#endif
