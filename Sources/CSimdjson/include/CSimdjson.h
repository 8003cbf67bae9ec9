// JSON bytes → a flat tape that Swift can walk.
//
// simdjson validates UTF-8 and finds the structural characters (its "stage 1"); the tape is built from those here, so
// that numbers stay text (exact decimals, exact 64-bit integers), every value is visited (malformed text is always
// found) and every fault has an offset.
//
// Invariants
//  1. The tape is the document in order; an element's `span` counts it and everything below it.
//  2. An object's members alternate key (a string), value.
//  3. A string without escapes is an (offset, length) into the text: never copied. One with escapes lies in `unescaped`.
//  4. Thread-safe: parses share nothing (scratch space is per thread).
//  5. Memory is asked for before it is taken, by what will be touched of it; only scratch space for short texts, which
//     each thread keeps, is not.
#ifndef BROKER_CSIMDJSON_H
#define BROKER_CSIMDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Bytes that must be readable (their values do not matter) after the end of a text.
enum { BROKER_JSON_PADDING = 64 };

enum {
    BROKER_JSON_NULL = 0,
    BROKER_JSON_FALSE = 1,
    BROKER_JSON_TRUE = 2,
    BROKER_JSON_NUMBER = 3,
    BROKER_JSON_STRING = 4,
    BROKER_JSON_ARRAY = 5,
    BROKER_JSON_OBJECT = 6,
};

enum {
    /// The string had escapes: `offset` is into `unescaped`, and the four bytes before it hold its text offset.
    BROKER_JSON_UNESCAPED = 1,
    /// The number has neither fraction nor exponent.
    BROKER_JSON_INTEGRAL = 2,
};

typedef struct {
    /// String: its first content byte. Number, literal, container: its first byte in the text.
    uint32_t offset;
    /// Bytes; of a container, with both brackets.
    uint32_t length;
    /// Elements in this subtree, this one included.
    uint32_t span;
    uint8_t kind;
    uint8_t flags;
    uint16_t reserved;
} broker_json_element;

typedef struct {
    broker_json_element *elements;
    size_t count;
    uint8_t *unescaped;
    size_t unescaped_length;
    size_t unescaped_capacity;
} broker_json_tape;

/// Asks whether `bytes` of memory may be taken; a negative number gives some back, and the answer is then ignored.
typedef bool (*broker_json_take)(void *context, ptrdiff_t bytes);

typedef enum {
    BROKER_JSON_OK = 0,
    BROKER_JSON_EMPTY,
    BROKER_JSON_TOO_LARGE,
    BROKER_JSON_OUT_OF_MEMORY,
    /// The allowance was refused.
    BROKER_JSON_NO_ROOM,
    BROKER_JSON_TOO_DEEP,
    BROKER_JSON_NOT_UTF8,
    BROKER_JSON_UNCLOSED_STRING,
    BROKER_JSON_CONTROL_CHARACTER,
    BROKER_JSON_BAD_ESCAPE,
    BROKER_JSON_BAD_NUMBER,
    BROKER_JSON_BAD_LITERAL,
    BROKER_JSON_EXPECTED_VALUE,
    BROKER_JSON_EXPECTED_KEY,
    BROKER_JSON_EXPECTED_COLON,
    BROKER_JSON_EXPECTED_COMMA_OR_END,
    BROKER_JSON_UNCLOSED_CONTAINER,
    BROKER_JSON_TRAILING_CONTENT,
} broker_json_status;

/// Parses strictly by RFC 8259. `text` must have BROKER_JSON_PADDING readable bytes after its end.
/// On success the caller owns `*tape` and frees it; on failure `*tape` is empty and `*fault_offset` is the byte at fault.
/// `take` may be null; what it granted and the tape does not hold is given back before the end.
broker_json_status broker_json_parse(const uint8_t *text, size_t length, uint32_t maximum_depth,
                                     broker_json_take take, void *take_context,
                                     broker_json_tape *tape, size_t *fault_offset);

/// Bytes that a tape holds: what the parse took for it.
size_t broker_json_memory(const broker_json_tape *tape);

/// Frees `elements`, but not `unescaped`: rows may still point into that.
void broker_json_free_elements(broker_json_tape *tape);

/// A JSON number's text as the nearest double. False when it is out of a double's range.
bool broker_json_double(const uint8_t *text, size_t length, double *value);

#ifdef __cplusplus
}
#endif

#endif
