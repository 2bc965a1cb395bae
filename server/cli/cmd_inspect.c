/* acre inspect: what a model directory holds, and what the model attends to. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/cmd.h"
#include "cli/decode.h"
#include "cli/result_json.h"
#include "common/draft.h"
#include "common/error.h"
#include "common/json.h"
#include "common/unicode.h"
#include "attention/html.h"
#include "attention/picture.h"
#include "attention/svg.h"
#include "serve/models.h"

struct inspect_args {
    struct decode_args decode;
    struct option_list attention; /* a list, so that it may be of any length */
    char output[OPTION_TEXT_BYTES];
};

static const struct option options[] = {
    ARGS_FLAG("json", struct inspect_args, decode.json, "print one JSON object"),
    ARGS_NUMBER("threads", struct inspect_args, decode.threads, 1, ACRE_MAX_THREADS, "1", "N",
                "worker threads whose memory is told (default: 1)"),
    ARGS_NUMBER("batch_size", struct inspect_args, decode.batch_size, 1, ACRE_MAX_BATCH_SIZE, "32",
                "N", "sentences that each decodes together (default: 32)"),
    ARGS_NUMBER("max_beam_size", struct inspect_args, decode.max_beam_size, 1, ACRE_MAX_BEAM_SIZE,
                "8", "N", "with at most so large a beam (default: 8)"),
    ARGS_LIST("attention", struct inspect_args, attention, "TEXT",
              "show what each output token attends to when TEXT is translated"),
    DECODE_LANGUAGES,
    ARGS_FILLED("o", struct inspect_args, output, "FILE", "a file",
                "file for --attention: .html, .svg or .json (default: HTML to standard output)"),
    {.key = NULL},
};

static const struct option positionals[] = {
    ARGS_POSITIONAL("DIR", struct inspect_args, decode.model, "model directory (required)"),
    {.key = NULL},
};

static const struct args_command command = {
    .name = "inspect",
    .synopsis = "DIR [--json | --attention TEXT [-o FILE]] [options]",
    .about =
        "Loads a model and prints what it is, and how much memory acre serve takes for it with\n"
        "so many threads, batches and beams: the weights, and what it works in at most. The\n"
        "latter is reserved at once, but takes memory only as far as it has been used.\n"
        "\n"
        "With --attention, draws what it attends to: for each decoder layer and head, each output\n"
        "token against the ranges of the input, with their weights. The JSON is what acre\n"
        "translate --json --attention prints.\n",
    .options = options,
    .positionals = positionals,
};

static void print_memory(const struct acre_model_info *info, const struct decode_args *args)
{
    const double mib = 1 << 20;

    printf("weights in memory  %.1f MiB\n", (double)info->packed_bytes / mib);
    printf("working memory     at most %.1f MiB (threads %d, batch size %d, beams up to %d)\n",
           (double)info->working_bytes / mib, (int)args->threads, (int)args->batch_size,
           (int)args->max_beam_size);
}

static const char *told(const char *tag)
{
    return tag[0] ? tag : "(not told)";
}

static void print_languages(const struct acre_model_info *info)
{
    if (info->n_sources < 2)
        printf("languages          %s -> %s\n", told(info->source), told(info->target));
    else
        printf("languages          %zu, from each to each:", info->n_sources);
    for (size_t i = 0; i < info->n_sources && info->n_sources > 1; i++)
        printf("%s%s (%s)", i % 6 == 0 ? "\n                   " : ", ", info->sources[i].tag,
               info->sources[i].code);
    printf("%s", info->n_sources > 1 ? "\n" : "");
}

static void print_table(const struct acre_model_info *info)
{
    const struct acre_decoding *d = &info->decoding;

    printf("name               %s\n", info->name);
    print_languages(info);
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
    printf("max target tokens  %d\n", info->max_target_tokens);
    printf("beam size          %d, threshold %g%s\n", d->beam_size, (double)d->beam_threshold,
           d->beam_threshold == 0 ? " (none)" : "");
    printf("length             %d to %d tokens, penalty %g\n", d->min_length, d->max_length,
           (double)d->length_penalty);
}

static int print(const struct acre_model_info *info, const struct decode_args *args)
{
    json_t *object;
    int rc = 0;

    if (args->json) {
        object = models_describe(info);
        rc = object ? json_dumpf(object, stdout, JSON_FLAGS) : -1;
        putchar('\n');
        json_decref(object);
    } else {
        print_table(info);
        print_memory(info, args);
    }
    return rc == 0 ? args_done() : args_failed(ARGS_NOT_PRINTED);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* What is to be shown, in one of the formats. */
struct show {
    const struct acre_model_info *model;
    const struct acre_job *job;
    FILE *out;
};

static int show_json(const struct show *show, struct acre_err *err)
{
    return result_json_write(show->job, true, show->out, err);
}

static int show_html(const struct show *show, struct acre_err *err)
{
    struct attention_picture picture;

    if (attention_picture_open(&picture, show->model, show->job, err) != 0)
        return err->code;
    attention_html_write(&picture, show->out);
    attention_picture_close(&picture);
    return 0;
}

static int show_svg(const struct show *show, struct acre_err *err)
{
    struct attention_picture picture;
    int rc;

    if (attention_picture_open(&picture, show->model, show->job, err) != 0)
        return err->code;
    rc = attention_svg_write(&picture, show->out);
    attention_picture_close(&picture);
    return rc == 0 ? 0 : error_set_no_memory(err);
}

typedef int show_fn(const struct show *show, struct acre_err *err);

/* By the ending of a file's name; NULL if it is none of ours. */
static show_fn *find_format(const char *path)
{
    static const struct {
        const char *ending;
        show_fn *show;
    } formats[] = {{".html", show_html}, {".svg", show_svg}, {".json", show_json}};
    const size_t bytes = strlen(path);

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const size_t ending = strlen(formats[i].ending);

        if (bytes > ending && strcmp(path + bytes - ending, formats[i].ending) == 0)
            return formats[i].show;
    }
    return NULL;
}

static int check_text(const struct option_list *attention)
{
    const char *text = attention->items[0];
    const size_t bytes = strlen(text), valid = unicode_valid_bytes(text, bytes);

    if (attention->n_items > 1)
        return args_wrong("--attention: expected once, found %zu times", attention->n_items);
    if (valid < bytes)
        return args_wrong("--attention: expected UTF-8, found byte 0x%02x",
                          (unsigned char)text[valid]);
    if (unicode_is_blank(text, bytes))
        return args_wrong("--attention: expected a text, found none");
    return 0;
}

static int check_no_attention(const struct inspect_args *args)
{
    const char *given = args->output[0]          ? "-o"
                        : args->decode.source[0] ? "--source"
                        : args->decode.target[0] ? "--target"
                                                 : NULL;

    return given ? args_wrong("%s: expected together with --attention, found alone", given) : 0;
}

static int check_attention(const struct inspect_args *args)
{
    if (args->attention.n_items == 0)
        return check_no_attention(args);
    if (args->decode.json)
        return args_wrong("--json: expected without --attention (-o FILE.json), found with it");
    if (args->output[0] && !find_format(args->output))
        return args_wrong("-o: expected a file that ends in .html, .svg or .json, found \"%s\"",
                          args->output);
    if (!args->output[0] && isatty(STDOUT_FILENO))
        return args_wrong("-o: expected a file, as standard output is a terminal, found none");
    return check_text(&args->attention);
}

static int write_attention(const struct inspect_args *args, struct show *show, struct acre_err *err)
{
    const struct acre_result *result = acre_job_result(show->job);
    struct draft draft;

    if (result->status != 0)
        return error_set(err, result->status, "--attention: %s", result->err.text);
    if (result->n_sentences == 0)
        return error_set(err, ACRE_EINPUT,
                         "--attention: expected something to translate, "
                         "found none");
    if (draft_open(&draft, args->output, err) != 0)
        return err->code;
    show->out = draft.file;
    if ((args->output[0] ? find_format(args->output) : show_html)(show, err) != 0) {
        draft_drop(&draft);
        return err->code;
    }
    return draft_keep(&draft, err);
}

static int show_attention(const struct inspect_args *args, const struct decode *decode)
{
    const char *text = args->attention.items[0];
    const struct acre_request request = {.model = decode->model,
                                         .text = text,
                                         .text_bytes = strlen(text),
                                         .source = decode->source,
                                         .target = decode->target,
                                         .decoding = decode->decoding};
    struct acre_err err = {.code = 0};
    struct acre_job *job;
    struct show show = {.model = acre_model_info(decode->model)};
    int rc;

    if (acre_translate(&request, &job, &err) != 0)
        return args_failed("--attention: %s", err.text);
    show.job = job;
    rc = write_attention(args, &show, &err);
    acre_job_close(job);
    return rc == 0 ? EXIT_DONE : args_failed("%s", err.text);
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect_args args = {.output = ""};
    struct decode decode;
    int rc;

    decode_init(&args.decode);
    strcpy(args.decode.device, "cpu");
    strcpy(args.decode.compute_type, "auto");
    rc = args_parse(&command, &args, argc, argv);
    if (rc != ARGS_GO)
        return rc;
    if (!args.decode.model[0])
        return args_wrong("DIR: expected a model directory, found none");
    rc = check_attention(&args);
    if (rc != 0)
        return rc;
    rc = decode_open(&decode, &args.decode, 0);
    if (rc == 0 && args.attention.n_items > 0)
        rc = decode_languages(&decode, &args.decode);
    if (rc == 0 && args.attention.n_items > 0)
        rc = show_attention(&args, &decode);
    else if (rc == 0)
        rc = print(acre_model_info(decode.model), &args.decode);
    decode_close(&decode);
    return rc;
}
