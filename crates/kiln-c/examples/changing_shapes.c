/* A model at changing shapes by kiln.h: loads it, runs it, cancels a run, prints statistics.
 *
 *     changing_shapes MODEL.onnx [FOLDER]
 *
 * The model takes one input of floats whose open dimensions may have any size; records go to the folder. */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kiln.h"

#define MOST_AXES 8

/* Ends the program where a call has failed. */
static void expect(KilnStatus *status, const char *what) {
    if (status != NULL) {
        fprintf(stderr, "%s: %s\n", what, kiln_status_message(status));
        kiln_status_release(status);
        exit(1);
    }
}

/* What one thread needs to run the model. */
typedef struct Request {
    KilnSession *session;
    KilnRunOptions *options;
    KilnPort in, out;
    float *from, *to;
    size_t room; /* floats at `to` */
    int64_t from_dims[MOST_AXES], to_dims[MOST_AXES];
    KilnOutput output;
} Request;

static void make(Request *request, KilnSession *session, KilnRunOptions *options) {
    memset(request, 0, sizeof *request);
    request->session = session;
    request->options = options;
    expect(kiln_session_input(session, 0, &request->in), "input");
    expect(kiln_session_output(session, 0, &request->out), "output");
    if (request->in.dtype != KILN_FLOAT32 || request->in.rank > MOST_AXES) {
        fprintf(stderr, "the input '%s' %s is not one of floats\n", request->in.name, request->in.shape);
        exit(1);
    }
}

/* Runs the model with `size` in place of each open dimension. Memory for the output grows when it has to. */
static KilnStatus *run(Request *request, int64_t size) {
    size_t count = 1;
    for (size_t axis = 0; axis < request->in.rank; axis++) {
        int64_t dim = request->in.dims[axis];
        request->from_dims[axis] = dim < 0 ? size : dim;
        count *= (size_t)request->from_dims[axis];
    }
    free(request->from);
    request->from = malloc(count * sizeof(float));
    if (request->from == NULL) {
        fprintf(stderr, "no memory for %zu floats\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        request->from[i] = (float)(i % 7) - 3.0f;
    }
    KilnInput input = {
        .name = request->in.name,
        .dtype = KILN_FLOAT32,
        .rank = request->in.rank,
        .dims = request->from_dims,
        .data = request->from,
        .bytes = count * sizeof(float),
    };
    for (;;) {
        KilnOutput output = {
            .name = request->out.name,
            .data = request->to,
            .room = request->room * sizeof(float),
            .dims = request->to_dims,
            .dims_room = MOST_AXES,
        };
        KilnStatus *status = kiln_session_run(request->session, request->options, &input, 1, &output, 1);
        request->output = output;
        if (kiln_status_code(status) != KILN_CODE_NO_ROOM || output.rank > MOST_AXES) {
            return status;
        }
        kiln_status_release(status);
        free(request->to);
        request->to = malloc(output.bytes);
        request->room = request->to == NULL ? 0 : output.bytes / sizeof(float);
        if (request->to == NULL) {
            fprintf(stderr, "no memory for %zu bytes\n", output.bytes);
            exit(1);
        }
    }
}

static void release(Request *request) {
    free(request->from);
    free(request->to);
}

/* Runs the model until it is cancelled. */
static void *run_on(void *argument) {
    Request *request = argument;
    KilnStatus *status = NULL;
    while (status == NULL) {
        status = run(request, 64);
    }
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL.onnx [FOLDER]\n", argv[0]);
        return 2;
    }
    printf("kiln %s\n", kiln_version());

    KilnOptions *options;
    expect(kiln_options_new(&options), "options");
    expect(kiln_options_set(options, "threads", "2"), "threads");
    expect(kiln_options_set(options, "process_bytes", "1GiB"), "process_bytes");
    if (argc > 2) {
        expect(kiln_options_set(options, "cache_dir", argv[2]), "cache_dir");
    }
    KilnStatus *wrong = kiln_options_set(options, "tune", "sometimes");
    printf("refused: %s\n", kiln_status_message(wrong));
    kiln_status_release(wrong);

    KilnSession *session;
    expect(kiln_session_load(argv[1], options, &session), argv[1]);
    KilnRunOptions *limits;
    expect(kiln_run_options_new(&limits), "run options");
    expect(kiln_run_options_set_time_limit(limits, 60.0), "time limit");

    Request request;
    make(&request, session, limits);
    printf("input %s %s, output %s %s\n", request.in.name, request.in.shape, request.out.name, request.out.shape);
    const int64_t sizes[] = {5, 9, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        expect(run(&request, sizes[i]), "run");
        printf("size %" PRId64 ": [", sizes[i]);
        for (size_t axis = 0; axis < request.output.rank; axis++) {
            printf("%s%" PRId64, axis == 0 ? "" : ", ", request.to_dims[axis]);
        }
        printf("], first %.6f\n", (double)request.to[0]);
    }

    /* A thread runs until another one cancels its options. */
    Request other;
    make(&other, session, limits);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_on, &other) != 0) {
        fprintf(stderr, "no thread\n");
        return 1;
    }
    const struct timespec pause = {.tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    expect(kiln_run_options_cancel(limits), "cancel");
    void *ended;
    pthread_join(thread, &ended);
    KilnStatus *status = ended;
    printf("%s: %s\n", kiln_status_code(status) == KILN_CODE_CANCELLED ? "cancelled" : "failed",
           kiln_status_message(status));
    kiln_status_release(status);
    expect(kiln_run_options_reset(limits), "reset");
    expect(run(&request, 9), "run after cancelling");

    bool is_warm = false;
    expect(kiln_session_warm(session, 10.0, &is_warm), "warm");
    KilnStatistics counts;
    expect(kiln_session_statistics(session, &counts, sizeof counts), "statistics");
    KilnMemory memory;
    expect(kiln_process_memory(&memory, sizeof memory), "memory");
    printf("warm %d, look-ups %" PRIu64 ", builds %" PRIu64 ", from records %" PRIu64 ", plans found %" PRIu64 "\n",
           is_warm, counts.lookups, counts.builds, counts.builds_from_records, counts.plan_hits);
    printf("bytes held %" PRIu64 ", at most %" PRIu64 ", limit %" PRIu64 "\n", memory.total, memory.most, memory.limit);

    release(&request);
    release(&other);
    kiln_session_release(session);
    kiln_run_options_release(limits);
    kiln_options_release(options);
    return 0;
}
