/* exchange.h - requests on kept connections to one address, and what became of each. Loop thread.
 */
#ifndef TESTS_DEPLOY_EXCHANGE_H
#define TESTS_DEPLOY_EXCHANGE_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { MAX_ANSWERS = 4 };

struct test_case {
    char *request; /* whole, head and body */
    size_t bytes;
    const char *answers[MAX_ANSWERS];
    size_t n_answers;
};

/* What became of a request: the number of the answer that came ("0", "1"), "wrong", "refused" (429
 * or 503 that says when to come again), "status-N" for any other reply, "timeout", or for
 * want of a reply what went wrong, such as "read-ECONNRESET". */
typedef void exchange_done_fn(double due_s, const char *outcome);

struct exchange {
    uv_loop_t *loop;
    struct sockaddr_in address;
    exchange_done_fn *done;
};

void exchange_open(const struct exchange *wanted);

/* Sends it once; `done` is called once for it. Ends the program if too many wait. */
void exchange_send(const struct test_case *test_case, double due_s);

/* Ends what waits for too long and closes what idles; to be called often. */
void exchange_sweep(uint64_t timeout_ms);

/* Closes all connections; nothing may wait. */
void exchange_close(void);

#endif
