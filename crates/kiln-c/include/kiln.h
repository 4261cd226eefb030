/* Kiln's own C interface, for features that onnxruntime's lacks. Written by cbindgen from crates/kiln-c.
 *
 * Functions that can fail return a status. NULL is success. Any other status says what is wrong, and
 * kiln_status_release releases it. Handles (KilnStatus, KilnOptions, KilnRunOptions, KilnSession) are numbers in the
 * form of pointers; no number is used twice. A handle that is null, was released or is of another kind is an error,
 * never a crash, and releasing it does nothing. Any other pointer must be valid until the call returns, or null: a null
 * pointer is an error that names the parameter. Strings end with a zero byte. They are UTF-8, except paths.
 *
 * Any thread may call any function at any time. Runs of a released session continue to their end.
 */

#ifndef KILN_H
#define KILN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The model declares no element type.
#define KILN_UNDECLARED 0

// Floats of 32 bits. The numbers of element types are ONNX's.
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

// Strings. Runs of this interface neither read nor write them.
#define KILN_STRING 8

// Booleans of one byte: 0 is false, any other value is true.
#define KILN_BOOL 9

// Floats of 16 bits: 5 of exponent, 10 of mantissa.
#define KILN_FLOAT16 10

// Floats of 64 bits.
#define KILN_FLOAT64 11

// Unsigned integers of 32 bits.
#define KILN_UINT32 12

// Unsigned integers of 64 bits.
#define KILN_UINT64 13

// Floats of 16 bits: 8 of exponent, 7 of mantissa.
#define KILN_BFLOAT16 16

// Floats of 8 bits: 4 of exponent, 3 of mantissa, no infinities.
#define KILN_FLOAT8E4M3FN 17

// The same without a negative zero.
#define KILN_FLOAT8E4M3FNUZ 18

// Floats of 8 bits: 5 of exponent, 2 of mantissa.
#define KILN_FLOAT8E5M2 19

// The same without infinities and a negative zero.
#define KILN_FLOAT8E5M2FNUZ 20

// Unsigned integers of 4 bits. Runs of this interface neither read nor write elements of less than a byte.
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

// The kind of a failure. Later versions may add codes.
typedef enum KilnCode {
    // No failure.
    KILN_CODE_OK = 0,
    // An argument is wrong: null, a name that the model does not have, a type or shape that it does not take, or an
    // unknown setting.
    KILN_CODE_INVALID_ARGUMENT = 1,
    // A handle was released, is of another kind, or never was one.
    KILN_CODE_NOT_LIVE = 2,
    // An output has more bytes or dimensions than there is room for. Unless the output is fixed, its KilnOutput says
    // how many it has.
    KILN_CODE_NO_ROOM = 3,
    // The system has too little memory, or a limit forbids more.
    KILN_CODE_NO_MEMORY = 4,
    // The model or the call needs something that Kiln does not support.
    KILN_CODE_UNSUPPORTED = 5,
    // The file is damaged or not a model, or the model breaks ONNX's rules.
    KILN_CODE_INVALID_MODEL = 6,
    // A file cannot be read or written.
    KILN_CODE_FILE = 7,
    // The run or the loading was cancelled.
    KILN_CODE_CANCELLED = 8,
    // The time limit of the run or of the loading has passed.
    KILN_CODE_TIME_LIMIT = 9,
    // The setting error_on_cache_miss is on, and the run needs an executor without a record.
    KILN_CODE_CACHE_MISS = 10,
    // A fault in Kiln itself.
    KILN_CODE_FAULT = 11,
    // Any other failure.
    KILN_CODE_FAILED = 12,
} KilnCode;

// The kind of a value. Runs of this interface read and write tensors only.
typedef enum KilnKind {
    // A tensor.
    KILN_KIND_TENSOR = 0,
    // A sequence of tensors.
    KILN_KIND_SEQUENCE = 1,
    // An optional tensor or an optional sequence.
    KILN_KIND_OPTIONAL = 2,
    // A map, or a sequence of maps.
    KILN_KIND_MAP = 3,
} KilnKind;

// Settings of sessions. A session copies them when it is loaded.
typedef struct KilnOptions KilnOptions;

// Settings of runs. Several runs may share them at the same time.
typedef struct KilnRunOptions KilnRunOptions;

// A loaded model, ready to run at any shape from any number of threads.
typedef struct KilnSession KilnSession;

// Why a call failed. NULL is success.
typedef struct KilnStatus KilnStatus;

// An input or output as the model declares it. Its strings and dimensions live as long as the session.
typedef struct KilnPort {
    // Its name.
    const char *name;
    // The shape as a string: "[batch, 3, ?]" has a named dimension, a dimension of size 3 and an unknown one. It is ""
    // if the model declares no shape.
    const char *shape;
    // The sizes; -1 for a dimension without a declared size.
    const int64_t *dims;
    // The number of dimensions.
    size_t rank;
    // The element type; KILN_UNDECLARED if the model declares none.
    int32_t dtype;
    // The kind of value.
    enum KilnKind kind;
    // Whether the model declares a shape.
    bool has_shape;
    // Whether the model has a default for this input. A run may then leave it out.
    bool has_default;
} KilnPort;

// An input of a run.
typedef struct KilnInput {
    // The name of the model's input.
    const char *name;
    // The element type, as in KILN_FLOAT32.
    int32_t dtype;
    // The number of dimensions.
    size_t rank;
    // The sizes.
    const int64_t *dims;
    // The elements, row by row. The run reads them in place.
    const void *data;
    // The size of the elements in bytes.
    size_t bytes;
} KilnInput;

// An output of a run.
typedef struct KilnOutput {
    // The name of the model's output.
    const char *name;
    // Memory for the elements, row by row. It overlaps no input and no other output.
    void *data;
    // The number of bytes that fit at `data`.
    size_t room;
    // Memory for the sizes.
    int64_t *dims;
    // The number of sizes that fit at `dims`.
    size_t dims_room;
    // If not 0, the caller sets dtype, rank and the sizes at `dims`. The run then writes the output straight to
    // `data`, and an output of another type or shape is an error. If 0, the run writes dtype, rank and the sizes.
    int32_t is_fixed;
    // The element type.
    int32_t dtype;
    // The number of dimensions.
    size_t rank;
    // The size of the elements in bytes, written by the run.
    size_t bytes;
} KilnOutput;

// Counters of a session. Later versions add fields at the end.
typedef struct KilnStatistics {
    // Look-ups of executors and code.
    uint64_t lookups;
    // Look-ups that found a stored entry.
    uint64_t hits;
    // Look-ups that found nothing.
    uint64_t misses;
    // Look-ups that waited until another thread had built the entry.
    uint64_t waits;
    // Builds that succeeded.
    uint64_t builds;
    // The time of these builds, in nanoseconds.
    uint64_t build_nanoseconds;
    // Builds that took their choices from a record.
    uint64_t builds_from_records;
    // Builds that failed.
    uint64_t failures;
    // Executors and code that were evicted.
    uint64_t evictions;
    // Executors and code that are stored now.
    uint64_t entries;
    // The size of these entries in bytes.
    uint64_t bytes;
    // Look-ups of plans of whole runs.
    uint64_t plan_lookups;
    // Look-ups of plans that found one.
    uint64_t plan_hits;
    // Plans that are stored now.
    uint64_t plans;
    // The size of these plans in bytes.
    uint64_t plan_bytes;
    // Records that are held now.
    uint64_t records;
    // Look-ups of records.
    uint64_t record_lookups;
    // Look-ups of records that found a choice.
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
    // Packed weights and constants, except those that are mapped from a file.
    uint64_t weights;
    // Tensors and scratch, in use or kept for the next runs.
    uint64_t tensors;
    // Records.
    uint64_t records;
    // The sum of these.
    uint64_t total;
    // The highest total so far.
    uint64_t most;
    // The lowest limit that a session or the environment has set; UINT64_MAX without a limit.
    uint64_t limit;
} KilnMemory;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of Kiln, as in "0.1.0". The string lives as long as the process.
const char *kiln_version(void);

// The kind of the failure. It is KILN_CODE_OK for NULL, and KILN_CODE_NOT_LIVE for a released status.
enum KilnCode kiln_status_code(const struct KilnStatus *status);

// The message: what is wrong, and where. It is "" for NULL. The string lives until the status is released.
const char *kiln_status_message(const struct KilnStatus *status);

// Releases a status. NULL is allowed.
void kiln_status_release(struct KilnStatus *status);

// Makes options in which nothing is set: the KILN_* environment variables and the defaults apply.
struct KilnStatus *kiln_options_new(struct KilnOptions **options);

// Sets one option. A key is the name of an environment variable, as in "cache_dir" for KILN_CACHE_DIR ("threads" for
// KILN_NUM_THREADS), or one of these: buffer_bytes, cache_per_model, error_on_cache_miss, load_time_limit,
// memory_bytes, optimize, pack_bytes, plan_bytes, prepare_memory, rehearse, time_limit, tune_budget. Times are in
// seconds. An empty value resets the option. An unknown key or an invalid value is KILN_CODE_INVALID_ARGUMENT.
struct KilnStatus *kiln_options_set(struct KilnOptions *options, const char *key, const char *value);

// Releases options. NULL is allowed.
void kiln_options_release(struct KilnOptions *options);

// Loads a model from an ONNX file or from a packed model (kiln_pack). With NULL options, the environment's apply.
struct KilnStatus *kiln_session_load(const char *path, const struct KilnOptions *options, struct KilnSession **session);

// Loads an ONNX model from `len` bytes, which are copied. A model with tensors in other files is refused.
struct KilnStatus *kiln_session_load_bytes(const void *bytes,
                                           size_t len,
                                           const struct KilnOptions *options,
                                           struct KilnSession **session);

// Releases a session. NULL is allowed. Runs that have begun continue; after the last one the session saves its new
// records and frees its memory.
void kiln_session_release(struct KilnSession *session);

// The number of the model's inputs.
struct KilnStatus *kiln_session_input_count(const struct KilnSession *session, size_t *count);

// The number of the model's outputs.
struct KilnStatus *kiln_session_output_count(const struct KilnSession *session, size_t *count);

// Writes an input's declaration. The first input has index 0.
struct KilnStatus *kiln_session_input(const struct KilnSession *session, size_t index, struct KilnPort *port);

// Writes an output's declaration. The first output has index 0.
struct KilnStatus *kiln_session_output(const struct KilnSession *session, size_t index, struct KilnPort *port);

// Makes options in which nothing is set: the session's time limit applies.
struct KilnStatus *kiln_run_options_new(struct KilnRunOptions **options);

// Sets the time limit of a run, in seconds above 0. It is checked before each node and within long kernels.
struct KilnStatus *kiln_run_options_set_time_limit(struct KilnRunOptions *options, double limit);

// Cancels every run that has these options. Later runs with them are also cancelled, until kiln_run_options_reset. A
// cancelled run returns KILN_CODE_CANCELLED.
struct KilnStatus *kiln_run_options_cancel(struct KilnRunOptions *options);

// Ends the effect of kiln_run_options_cancel for runs that begin later.
struct KilnStatus *kiln_run_options_reset(struct KilnRunOptions *options);

// Releases options. NULL is allowed.
void kiln_run_options_release(struct KilnRunOptions *options);

// Runs the model: reads the inputs in place, and writes the requested outputs, which may be listed in any order. If an
// output that is not fixed does not fit, the run returns KILN_CODE_NO_ROOM. The outputs that fit are then written;
// dtype, rank, bytes and as many sizes as fit are written for every output. After any other failure, the outputs'
// memory may hold anything. NULL options set nothing.
struct KilnStatus *kiln_session_run(const struct KilnSession *session,
                                    const struct KilnRunOptions *options,
                                    const struct KilnInput *inputs,
                                    size_t input_count,
                                    struct KilnOutput *outputs,
                                    size_t output_count);

// Waits for at most `timeout` seconds until everything that runs have needed so far is tuned, and then saves new
// records. Writes to is_warm whether all of this was done in time; is_warm may be NULL. Without the setting tune, it
// waits only for measurements of the machine and for a packed model that is being written.
struct KilnStatus *kiln_session_warm(const struct KilnSession *session, double timeout, bool *is_warm);

// Saves new records to the session's own file now; releasing the session saves them too. Writes to records how many
// records the file then has, or 0 without a file; records may be NULL.
struct KilnStatus *kiln_session_save_records(const struct KilnSession *session, uint64_t *records);

// Merges the records of a file, or of all record files of a folder. A file for another machine or build is an error if
// it is named alone; in a folder it is skipped. Writes to taken how many records were new or better, and to refused
// how many files were skipped; both may be NULL.
struct KilnStatus *kiln_session_load_records(const struct KilnSession *session,
                                             const char *path,
                                             uint64_t *taken,
                                             uint64_t *refused);

// Writes the model at `path` as a packed model to the file `to`. kiln_session_load loads that file with the same
// options on machines of the same kind. Writes the file's size to bytes; bytes may be NULL.
struct KilnStatus *kiln_pack(const char *path, const char *to, const struct KilnOptions *options, uint64_t *bytes);

// Gives memory that no run uses back to the system.
struct KilnStatus *kiln_session_trim(const struct KilnSession *session);

// Writes the session's counters. The last argument is sizeof(KilnStatistics).
struct KilnStatus *kiln_session_statistics(const struct KilnSession *session, struct KilnStatistics *to, size_t size);

// Writes what all sessions of the process hold. The last argument is sizeof(KilnMemory).
struct KilnStatus *kiln_process_memory(struct KilnMemory *to, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KILN_H */
