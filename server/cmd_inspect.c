/* acre inspect: what a model directory holds. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "args.h"
#include "cmd.h"
#include "decode.h"
#include "models.h"
#include "reply.h" /* REPLY_JSON_FLAGS */

struct inspect_args {
    struct decode_args decode;
    char attention[OPTION_TEXT_BYTES];
    char output[OPTION_TEXT_BYTES];
};

static const struct option options[] = {
    {.key = "json",
     .type = OPTION_FLAG,
     .offset = offsetof(struct inspect_args, decode.json),
     .initial = "false",
     .help = "print one JSON object"},
    {.key = "attention",
     .type = OPTION_TEXT,
     .offset = offsetof(struct inspect_args, attention),
     .initial = "",
     .value = "TEXT",
     .help = "where the model looks when it translates TEXT (not in this version)"},
    {.key = "o",
     .type = OPTION_TEXT,
     .offset = offsetof(struct inspect_args, output),
     .initial = "",
     .value = "FILE",
     .help = "file for what --attention shows (not in this version)"},
    {.key = NULL},
};

static const struct option positionals[] = {
    {.key = "DIR",
     .type = OPTION_TEXT,
     .offset = offsetof(struct inspect_args, decode.model),
     .initial = "",
     .help = "model directory (required)"},
    {.key = NULL},
};

static const struct args_command command = {
    .name = "inspect",
    .synopsis = "DIR [--json]",
    .about = "Loads a model and prints what it is.\n",
    .options = options,
    .positionals = positionals,
};

static void print_table(const struct acre_model_info *info)
{
    const struct acre_decoding *d = &info->decoding;

    printf("name               %s\n", info->name);
    printf("languages          %s -> %s\n", info->source, info->target);
    printf("level              %s\n", info->level);
    printf("model type         %s\n", info->model_type);
    printf("compute type       %s\n", info->compute_type);
    printf("parameters         %" PRIu64 "\n", info->parameters);
    printf("width              %d\n", info->d_model);
    printf("layers             %d encoder, %d decoder\n", info->encoder_layers,
           info->decoder_layers);
    printf("attention heads    %d\n", info->attention_heads);
    printf("vocabulary         %d\n", info->vocab_size);
    printf("max area width     %d%s\n", info->max_area_width,
           info->max_area_width == 1 ? " (regular attention)" : "");
    printf("max source tokens  %d\n", info->max_source_tokens);
    printf("beam size          %d\n", d->beam_size);
    printf("length             %d to %d tokens, penalty %g\n", d->min_length, d->max_length,
           (double)d->length_penalty);
}

static int print(const struct acre_model_info *info, bool as_json)
{
    json_t *object;
    int rc = 0;

    if (as_json) {
        object = models_describe(info);
        rc = object ? json_dumpf(object, stdout, REPLY_JSON_FLAGS) : -1;
        putchar('\n');
        json_decref(object);
    } else {
        print_table(info);
    }
    if (rc != 0 || fflush(stdout) != 0)
        return args_failed("standard output: expected to be writable, found an error");
    return EXIT_DONE;
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect_args args;
    struct decode decode;
    int rc;

    decode_init(&args.decode);
    strcpy(args.decode.device, "cpu");
    strcpy(args.decode.compute_type, "auto");
    args.decode.threads = args.decode.batch_size = 1;
    switch (args_parse(&command, &args, argc, argv)) {
    case ARGS_GO:
        break;
    case ARGS_HELP_SHOWN:
        return EXIT_DONE;
    case ARGS_WRONG:
        return EXIT_USAGE;
    }
    if (args.attention[0] || args.output[0])
        return args_wrong("%s: expected an option of this version, which cannot show attention "
                          "yet, found %s",
                          args.attention[0] ? "--attention" : "-o",
                          args.attention[0] ? "--attention" : "-o");
    if (!args.decode.model[0])
        return args_wrong("DIR: expected a model directory, found none");
    rc = decode_open(&decode, &args.decode, 0);
    if (rc == 0)
        rc = print(acre_model_info(decode.model), args.decode.json);
    decode_close(&decode);
    return rc;
}
