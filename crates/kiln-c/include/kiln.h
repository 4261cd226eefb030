/* Kiln's own C interface: what onnxruntime's has no word for. Written by cbindgen from crates/kiln-c.
 *
 * Functions that can fail return a status: NULL is success, anything else says what is wrong and is released by
 * kiln_status_release. Handles (KilnStatus, KilnOptions, KilnRunOptions, KilnSession) are numbers in the form of
 * pointers, each given once. A handle that is null, was released, or is of another kind is an error and never a crash,
 * and releasing it does nothing. Every other pointer is null, which is an error that names the parameter, or points to
 * what the function says, for as long as the call lasts. Texts end with a zero byte and are UTF-8, but for paths.
 *
 * All functions may be called from any thread at any time. What a released session is still running comes to its end.
 */

#ifndef KILN_H
#define KILN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// No element type is declared.
#define KILN_UNDECLARED 0

// Floats of 32 bits. Numbers of element types are those of ONNX.
#define KILN_FLOAT32 1

// Unsigned integers of 8 bits.
#define KILN_UINT8 2

// Signed integers of 8 bits.
#define KILN_INT8 3

// Unsigned integers of 16 bits.
#define KILN_UINT16 4

// Signed integers of 16 bits.
#define KILN_INT16 5

// Signed integers of 32 bits.
#define KILN_INT32 6

// Signed integers of 64 bits.
#define KILN_INT64 7

// Texts. No run takes or gives them here.
#define KILN_STRING 8

// Truth values, a byte each: 0 is false, all else is true.
#define KILN_BOOL 9

// Floats of 16 bits, 5 of them the exponent.
#define KILN_FLOAT16 10

// Floats of 64 bits.
#define KILN_FLOAT64 11

// Unsigned integers of 32 bits.
#define KILN_UINT32 12

// Unsigned integers of 64 bits.
#define KILN_UINT64 13

// Floats of 16 bits, 8 of them the exponent.
#define KILN_BFLOAT16 16

// Floats of 8 bits: 4 of exponent, 3 of mantissa, no infinities.
#define KILN_FLOAT8E4M3FN 17

// The same without a negative zero.
#define KILN_FLOAT8E4M3FNUZ 18

// Floats of 8 bits: 5 of exponent, 2 of mantissa.
#define KILN_FLOAT8E5M2 19

// The same without infinities and a negative zero.
#define KILN_FLOAT8E5M2FNUZ 20

// Unsigned integers of 4 bits. No run takes or gives elements of less than a byte here.
#define KILN_UINT4 21

// Signed integers of 4 bits.
#define KILN_INT4 22

// Floats of 4 bits.
#define KILN_FLOAT4E2M1 23

// Powers of two, of 8 bits.
#define KILN_FLOAT8E8M0 24

// Unsigned integers of 2 bits.
#define KILN_UINT2 25

// Signed integers of 2 bits.
#define KILN_INT2 26

// What kind of failure it was. Later versions may add codes.
typedef enum KilnCode {
    // No failure.
    KILN_CODE_OK = 0,
    // An argument is wrong: null, a name that the model does not have, another type or shape than it takes, a setting
    // that there is not.
    KILN_CODE_INVALID_ARGUMENT = 1,
    // A handle was released, is of another kind, or never was one.
    KILN_CODE_NOT_LIVE = 2,
    // An output has more bytes or axes than there is room for; what it needs has been written to its KilnOutput.
    KILN_CODE_NO_ROOM = 3,
    // Memory is not there, or a limit forbids it.
    KILN_CODE_NO_MEMORY = 4,
    // The model, or a call, needs what Kiln does not do.
    KILN_CODE_UNSUPPORTED = 5,
    // The file is no model, or one that breaks the rules.
    KILN_CODE_INVALID_MODEL = 6,
    // A file cannot be read or written.
    KILN_CODE_FILE = 7,
    // The run or the loading was cancelled.
    KILN_CODE_CANCELLED = 8,
    // The time limit of the run or of the loading has passed.
    KILN_CODE_TIME_LIMIT = 9,
    // The setting error_on_cache_miss is on, and there is no record for what the run needs.
    KILN_CODE_CACHE_MISS = 10,
    // A fault of Kiln's own.
    KILN_CODE_FAULT = 11,
    // Any other failure.
    KILN_CODE_FAILED = 12,
} KilnCode;

// What a value is. Runs take and give tensors alone.
typedef enum KilnKind {
    // A tensor.
    KILN_KIND_TENSOR = 0,
    // Tensors in an order.
    KILN_KIND_SEQUENCE = 1,
    // A tensor or nothing, or a sequence or nothing.
    KILN_KIND_OPTIONAL = 2,
    // A map, or maps in an order.
    KILN_KIND_MAP = 3,
} KilnKind;

// Settings of sessions. Sessions copy what they say when they are loaded.
typedef struct KilnOptions KilnOptions;

// Settings of runs, which several runs may have at once.
typedef struct KilnRunOptions KilnRunOptions;

// A loaded model, ready to run at any shape from any number of threads.
typedef struct KilnSession KilnSession;

// Why a call failed. NULL is success.
typedef struct KilnStatus KilnStatus;

// A declared input or output. Its texts and dimensions live as long as the session.
typedef struct KilnPort {
    // Its name.
    const char *name;
    // The shape as a text: "[batch, 3, ?]" has a named dimension, a size, and one that is not known; "" where no shape
    // is declared.
    const char *shape;
    // Sizes, -1 for a dimension without one.
    const int64_t *dims;
    // How many dimensions there are.
    size_t rank;
    // The element type; KILN_UNDECLARED where none is declared.
    int32_t dtype;
    // What it is.
    enum KilnKind kind;
    // Whether a shape is declared.
    bool has_shape;
    // Whether the model has a default for it, so that a run may leave it out.
    bool has_default;
} KilnPort;

// An input of a run.
typedef struct KilnInput {
    // The name of the model's input.
    const char *name;
    // The element type, as in KILN_FLOAT32.
    int32_t dtype;
    // How many dimensions there are.
    size_t rank;
    // The sizes.
    const int64_t *dims;
    // The elements, row by row, which are read where they are.
    const void *data;
    // Bytes of the elements.
    size_t bytes;
} KilnInput;

// An output of a run.
typedef struct KilnOutput {
    // The name of the model's output.
    const char *name;
    // Memory for the elements, row by row. It overlaps no input and no other output.
    void *data;
    // Bytes that there is room for at `data`.
    size_t room;
    // Memory for the sizes.
    int64_t *dims;
    // Sizes that there is room for at `dims`.
    size_t dims_room;
    // Where it is not 0, dtype, rank and the sizes at `dims` say what the output will be: then the run writes to `data`
    // and nothing is copied, and another type or shape is an error. Where it is 0, they are written by the run.
    int32_t is_fixed;
    // The element type.
    int32_t dtype;
    // How many dimensions there are.
    size_t rank;
    // Bytes of the elements, written by the run.
    size_t bytes;
} KilnOutput;

// Counters of a session. Later versions add fields at the end.
typedef struct KilnStatistics {
    // Look-ups of executors and code.
    uint64_t lookups;
    // Look-ups that found what was stored.
    uint64_t hits;
    // Look-ups that found nothing.
    uint64_t misses;
    // Look-ups that waited for a build of another thread.
    uint64_t waits;
    // Builds that succeeded.
    uint64_t builds;
    // Nanoseconds of these builds.
    uint64_t build_nanoseconds;
    // Builds that took their choices from a record.
    uint64_t builds_from_records;
    // Builds that failed.
    uint64_t failures;
    // Executors and code that bounds pushed out.
    uint64_t evictions;
    // Executors and code that are stored now.
    uint64_t entries;
    // Their bytes.
    uint64_t bytes;
    // Look-ups of plans of whole runs.
    uint64_t plan_lookups;
    // Those that found a plan.
    uint64_t plan_hits;
    // Plans that are stored now.
    uint64_t plans;
    // Their bytes.
    uint64_t plan_bytes;
    // Records that are held now.
    uint64_t records;
    // Look-ups of records.
    uint64_t record_lookups;
    // Those that found a choice.
    uint64_t record_hits;
    // Records that were loaded from files.
    uint64_t records_loaded;
    // Executors that were rebuilt from records before the first run.
    uint64_t warmed;
} KilnStatistics;

// Bytes that all sessions of the process hold. Later versions add fields at the end.
typedef struct KilnMemory {
    // Executors and code.
    uint64_t executors;
    // Plans of whole runs.
    uint64_t plans;
    // Packed weights and constants, but for those that are mapped from a file.
    uint64_t weights;
    // Tensors and scratch, in use or kept for the next runs.
    uint64_t tensors;
    // Records.
    uint64_t records;
    // All of these.
    uint64_t total;
    // The most that was ever held at once.
    uint64_t most;
    // The least of the limits that sessions and the environment set; UINT64_MAX where there is none.
    uint64_t limit;
} KilnMemory;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of Kiln, as in "0.1.0". The text lives as long as the process.
const char *kiln_version(void);

// What kind of failure it was; KILN_CODE_OK for NULL, KILN_CODE_NOT_LIVE for a status that was released.
enum KilnCode kiln_status_code(const struct KilnStatus *status);

// What is wrong, and where; "" for NULL. The text lives until the status is released.
const char *kiln_status_message(const struct KilnStatus *status);

// Releases a status; nothing for NULL.
void kiln_status_release(struct KilnStatus *status);

// Options that say nothing: the KILN_* variables of the environment count, and the defaults.
struct KilnStatus *kiln_options_new(struct KilnOptions **options);

// Sets one option. Keys are those of the environment's variables, as in "cache_dir" for KILN_CACHE_DIR ("threads" for
// KILN_NUM_THREADS), and these: buffer_bytes, cache_per_model, error_on_cache_miss, load_time_limit, memory_bytes,
// optimize, pack_bytes, plan_bytes, prepare_memory, rehearse, time_limit, tune_budget. Times are in seconds. An empty
// value takes a setting back. A key that there is not, and a value that is not allowed, are KILN_CODE_INVALID_ARGUMENT.
struct KilnStatus *kiln_options_set(struct KilnOptions *options, const char *key, const char *value);

// Releases options; nothing for NULL.
void kiln_options_release(struct KilnOptions *options);

// Loads a model from an ONNX file, or a packed one (kiln_pack). NULL options are those of the environment.
struct KilnStatus *kiln_session_load(const char *path, const struct KilnOptions *options, struct KilnSession **session);

// Loads an ONNX model from `len` bytes, which are copied. A model with files beside it is refused.
struct KilnStatus *kiln_session_load_bytes(const void *bytes,
                                           size_t len,
                                           const struct KilnOptions *options,
                                           struct KilnSession **session);

// Releases a session; nothing for NULL. Its new records are saved. A run that has begun comes
// to its end, and what it needs of the session goes with it.
void kiln_session_release(struct KilnSession *session);

// How many inputs the model has.
struct KilnStatus *kiln_session_input_count(const struct KilnSession *session, size_t *count);

// How many outputs the model has.
struct KilnStatus *kiln_session_output_count(const struct KilnSession *session, size_t *count);

// What the model declares of an input, by its place from 0 on.
struct KilnStatus *kiln_session_input(const struct KilnSession *session, size_t index, struct KilnPort *port);

// What the model declares of an output, by its place from 0 on.
struct KilnStatus *kiln_session_output(const struct KilnSession *session, size_t index, struct KilnPort *port);

// Options that say nothing: the session's time limit counts.
struct KilnStatus *kiln_run_options_new(struct KilnRunOptions **options);

// Sets how long a run may take, in seconds above 0. It is looked at before each node and within long kernels.
struct KilnStatus *kiln_run_options_set_time_limit(struct KilnRunOptions *options, double limit);

// Ends every run with these options, and those that begin later, with KILN_CODE_CANCELLED, until
// kiln_run_options_reset.
struct KilnStatus *kiln_run_options_cancel(struct KilnRunOptions *options);

// Lets runs that begin from now on run after kiln_run_options_cancel.
struct KilnStatus *kiln_run_options_reset(struct KilnRunOptions *options);

// Releases options; nothing for NULL.
void kiln_run_options_release(struct KilnRunOptions *options);

// Runs the model: reads inputs where they are, and writes the outputs that are asked for, in any order. Outputs that do
// not fit end the run with KILN_CODE_NO_ROOM: then those that fit are written, and dtype, rank, bytes and as many sizes
// as there is room for are written of all. After any other failure, memory of outputs may hold anything. NULL options
// say nothing.
struct KilnStatus *kiln_session_run(const struct KilnSession *session,
                                    const struct KilnRunOptions *options,
                                    const struct KilnInput *inputs,
                                    size_t input_count,
                                    struct KilnOutput *outputs,
                                    size_t output_count);

// Waits for at most `timeout` seconds until everything that runs have needed so far is tuned, and then saves new
// records. Writes to is_warm whether all is tuned; is_warm may be NULL. Without the setting tune there is nothing to
// wait for but figures of the machine.
struct KilnStatus *kiln_session_warm(const struct KilnSession *session, double timeout, bool *is_warm);

// Saves new records to the session's own file now; they are also saved when the session is released. Writes to records
// how many the file has then, 0 where there is no file; records may be NULL.
struct KilnStatus *kiln_session_save_records(const struct KilnSession *session, uint64_t *records);

// Merges the records of a file, or of all record files of a folder. A file that is for another machine or build is an
// error by itself; in a folder it is passed over. Writes to taken how many records were new or better, and to refused
// how many files were passed over; both may be NULL.
struct KilnStatus *kiln_session_load_records(const struct KilnSession *session,
                                             const char *path,
                                             uint64_t *taken,
                                             uint64_t *refused);

// Writes the model at `path` with packed weights to the file `to`, which kiln_session_load takes under the same options
// on machines of the same kind. Writes to bytes how large the file is; bytes may be NULL.
struct KilnStatus *kiln_pack(const char *path, const char *to, const struct KilnOptions *options, uint64_t *bytes);

// Gives memory that no run uses now back to the system.
struct KilnStatus *kiln_session_trim(const struct KilnSession *session);

// Writes the session's counters. The last argument is sizeof(KilnStatistics).
struct KilnStatus *kiln_session_statistics(const struct KilnSession *session, struct KilnStatistics *to, size_t size);

// Writes what all sessions of the process hold. The last argument is sizeof(KilnMemory).
struct KilnStatus *kiln_process_memory(struct KilnMemory *to, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KILN_H */
