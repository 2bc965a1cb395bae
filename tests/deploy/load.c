/* load: sends translations to one port at a rate, and says of each what became of it.
 *
 *   load PORT CASES TIMEOUT_S rate RATE:SECONDS...   Poisson arrivals, as of many clients
 *   load PORT CASES TIMEOUT_S clients N:SECONDS      each sends when it has its answer
 *
 * CASES is a JSON file: [{"path": "/translate", "body": "...", "answers": ["text", ...]}, ...].
 * Requests take the cases by turns. SIGTERM ends the sending; answers under way are waited for. One
 * line goes out for each request, what became of it as in exchange.h:
 *
 *   seconds after the start when it was due, milliseconds from then to its reply, what became of it
 *
 * Happy path: on_tick() sends what is due -> on_done() prints a line; when all phases are over and
 * nothing waits, the loop ends. Failure mode: wrong usage or files end the program. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "exchange.h"

enum { MAX_PHASES = 16, SWEEP_MS = 100 };

static uv_loop_t loop;
static uv_timer_t tick, sweep;
static uv_signal_t stopping;
static struct test_case *cases;
static size_t n_cases, n_sent, n_waiting;
static double timeout_s;
static uint64_t began_ns;

static struct {
    double rate, seconds;
} phases[MAX_PHASES];
static size_t n_phases, phase, n_clients;
static double phase_began_s, due_s;
static bool is_over;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static double now_s(void)
{
    return 1e-9 * (double)(uv_hrtime() - began_ns);
}

static void send_next(double due)
{
    n_waiting++;
    exchange_send(&cases[n_sent++ % n_cases], due);
}

static void on_done(double due, const char *outcome)
{
    printf("%.6f\t%.3f\t%s\n", due, 1e3 * (now_s() - due), outcome);
    n_waiting--;
    if (n_clients > 0 && !is_over)
        send_next(now_s());
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* Time until the next of arrivals that come independently, at the rate of this phase. */
static double draw_gap(void)
{
    return -log(1 - drand48()) / phases[phase].rate;
}

static void end_if_done(void)
{
    if (!is_over || n_waiting > 0)
        return;
    uv_close((uv_handle_t *)&tick, NULL);
    uv_close((uv_handle_t *)&sweep, NULL);
    uv_close((uv_handle_t *)&stopping, NULL);
    exchange_close();
}

static void on_tick(uv_timer_t *timer)
{
    const double now = now_s();

    (void)timer;
    while (!is_over && n_clients == 0 && due_s <= now) {
        if (due_s >= phase_began_s + phases[phase].seconds) {
            phase_began_s += phases[phase].seconds;
            due_s = phase_began_s;
            is_over = ++phase == n_phases;
        } else {
            send_next(due_s);
        }
        if (!is_over)
            due_s += draw_gap();
    }
    if (n_clients > 0 && now >= phases[0].seconds)
        is_over = true;
}

static void on_sweep(uv_timer_t *timer)
{
    (void)timer;
    exchange_sweep((uint64_t)(1e3 * timeout_s));
    end_if_done();
}

static void on_stop(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    is_over = true;
}

/* ---- The command line ------------------------------------------------------------------------ */

static void read_case(const json_t *from, struct test_case *into)
{
    const char *path, *body, *answer;
    json_t *answers;
    size_t i;
    int bytes;

    if (json_unpack((json_t *)from, "{s:s, s:s, s:o}", "path", &path, "body", &body, "answers",
                    &answers) != 0 ||
        json_array_size(answers) > MAX_ANSWERS)
        fail("cases", "expected path, body, and up to four answers");
    bytes = asprintf(&into->request,
                     "POST %s HTTP/1.1\r\nHost: acre.example\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     path, strlen(body), body);
    if (bytes < 0)
        fail("cases", "no memory");
    into->bytes = (size_t)bytes;
    into->n_answers = json_array_size(answers);
    for (i = 0; i < into->n_answers; i++) {
        answer = json_string_value(json_array_get(answers, i));
        into->answers[i] = answer ? answer : "";
    }
}

static json_t *read_cases(const char *file)
{
    json_error_t error;
    json_t *list = json_load_file(file, 0, &error);

    n_cases = json_array_size(list);
    if (n_cases == 0)
        fail(file, list ? "expected a list of cases" : error.text);
    cases = calloc(n_cases, sizeof(cases[0]));
    for (size_t i = 0; cases && i < n_cases; i++)
        read_case(json_array_get(list, i), &cases[i]);
    return list;
}

static void read_phases(const char *kind, int n, char **texts)
{
    if (n < 1 || n > MAX_PHASES)
        fail("phases", "expected 1 to 16");
    for (; n_phases < (size_t)n; n_phases++)
        if (sscanf(texts[n_phases], "%lf:%lf", &phases[n_phases].rate, &phases[n_phases].seconds) !=
                2 ||
            !(phases[n_phases].rate > 0))
            fail(texts[n_phases], "expected RATE:SECONDS");
    if (strcmp(kind, "clients") == 0)
        n_clients = (size_t)phases[0].rate;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    struct exchange exchange = {.loop = &loop, .done = on_done};
    json_t *list;

    if (argc < 6)
        fail("usage", "load PORT CASES TIMEOUT_S rate|clients RATE:SECONDS...");
    raise_descriptor_limit();
    uv_loop_init(&loop);
    uv_ip4_addr("127.0.0.1", atoi(argv[1]), &exchange.address);
    exchange_open(&exchange);
    list = read_cases(argv[2]);
    timeout_s = atof(argv[3]);
    read_phases(argv[4], argc - 5, argv + 5);
    srand48(1);
    began_ns = uv_hrtime();
    uv_timer_init(&loop, &tick);
    uv_timer_init(&loop, &sweep);
    uv_signal_init(&loop, &stopping);
    uv_signal_start(&stopping, on_stop, SIGTERM);
    uv_timer_start(&tick, on_tick, 0, 1);
    uv_timer_start(&sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    for (size_t i = 0; i < n_clients; i++)
        send_next(0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    json_decref(list);
    return fflush(stdout) == 0 ? 0 : 1;
}
