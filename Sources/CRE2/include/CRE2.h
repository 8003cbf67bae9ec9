// Searches in text for Swift: regular expressions of RE2 (compile, match, free), and memmem.
//
// Invariants
//  1. RE2 never backtracks: a match takes at most (bytes of the text) x (instructions of the program) steps.
//  2. No C++ exception leaves a function.
//  3. Thread-safe: RE2 guards the caches of an expression itself.
#ifndef BROKER_CRE2_H
#define BROKER_CRE2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct broker_re2 broker_re2;

typedef enum {
    BROKER_RE2_OK = 0,
    BROKER_RE2_INVALID,
    /// The program does not fit into `maximum_memory`.
    BROKER_RE2_TOO_LARGE,
    BROKER_RE2_OUT_OF_MEMORY,
} broker_re2_status;

/// The fault of a pattern. RE2's own texts, and the numbers of its codes, differ between versions.
typedef enum {
    BROKER_RE2_FAULT_OTHER = 0,
    BROKER_RE2_FAULT_ESCAPE,
    BROKER_RE2_FAULT_CLASS,
    BROKER_RE2_FAULT_RANGE,
    BROKER_RE2_FAULT_BRACKET,
    BROKER_RE2_FAULT_PARENTHESIS,
    BROKER_RE2_FAULT_BACKSLASH,
    BROKER_RE2_FAULT_REPEATED,
    BROKER_RE2_FAULT_COUNT,
    BROKER_RE2_FAULT_REPETITION,
    BROKER_RE2_FAULT_GROUP,
    BROKER_RE2_FAULT_NAME,
} broker_re2_fault;

/// Compiles a pattern in UTF-8 with RE2's default options: `.` matches any character except a line feed, `^` and `$` match at
/// the beginning and the end of the text only; `(?s)` and `(?m)` in the pattern change that.
///
/// - `maximum_memory`: bytes of the program and of RE2's caches, about.
/// - `fault`, `fragment`: receive what is wrong and where in the pattern, terminated by a zero, for BROKER_RE2_INVALID.
/// Returns null on failure. The caller frees the result with `broker_re2_free`.
broker_re2 *broker_re2_compile(const uint8_t *pattern, size_t length, bool ignores_case, int64_t maximum_memory,
                               broker_re2_fault *fault, char *fragment, size_t fragment_capacity,
                               broker_re2_status *status);

/// Instructions of the larger one of the two programs that RE2 runs (forwards and backwards).
int32_t broker_re2_program_size(const broker_re2 *expression);

typedef enum {
    BROKER_RE2_NO_MATCH = 0,
    BROKER_RE2_MATCH = 1,
    BROKER_RE2_MATCH_OUT_OF_MEMORY = 2,
} broker_re2_result;

/// Matches the whole text, or any part of it. The text has at most INT32_MAX bytes.
broker_re2_result broker_re2_match(const broker_re2 *expression, const uint8_t *text, size_t length, bool whole);

/// Accepts null.
void broker_re2_free(broker_re2 *expression);

/// Whether the bytes occur in the text. glibc's memmem needs no table and takes linear time.
bool broker_contains(const uint8_t *text, size_t length, const uint8_t *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
