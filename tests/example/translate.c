/* Translates a text with a model directory: translate DIRECTORY TEXT. The smallest whole program
 * that uses libacre; to build it see tests/cli/test_example.py. */
#include <acre.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct acre_options options = {.n_threads = 1};
    struct acre_engine *engine = NULL;
    struct acre_model *model;
    struct acre_job *job = NULL;
    struct acre_err err;
    if (argc != 3)
        return fprintf(stderr, "usage: translate DIRECTORY TEXT\n"), 2;
    int status = acre_engine_open(&options, &engine, &err);
    if (status == 0)
        status = acre_model_open(engine, argv[1], &model, &err);
    if (status == 0) {
        struct acre_request request = {.model = model, .text = argv[2]};
        request.text_bytes = strlen(request.text);
        request.decoding = acre_model_info(model)->decoding;
        status = acre_translate(&request, &job, &err);
    }
    if (status == 0 && acre_job_result(job)->status != 0)
        err = acre_job_result(job)->err, status = err.code;
    if (status == 0)
        printf("%s\n", acre_job_result(job)->hypotheses[0].text);
    else
        fprintf(stderr, "%s\n", err.text);
    acre_job_close(job);
    acre_engine_close(engine);
    return status == 0 ? 0 : 1;
}
