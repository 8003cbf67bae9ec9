// JSON bytes → a flat tape that Swift can walk (CTape), for texts of any size at the speed of the memory.
//
// simdjson validates UTF-8 and finds the structural characters (its "stage 1"); the tape is built from those here, so
// that numbers stay text (exact decimals, exact 64-bit integers), every value is visited (malformed text is always
// found) and every fault has an offset.
//
// Thread-safe: parses share nothing (scratch space is per thread). Memory is asked for before it is taken, by what will be
// touched of it; only scratch space for short texts, which each thread keeps, is not.
#ifndef BROKER_CSIMDJSON_H
#define BROKER_CSIMDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "CTape.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Asks whether `bytes` of memory may be taken; a negative number gives some back, and the answer is then ignored.
typedef bool (*broker_json_take)(void *context, ptrdiff_t bytes);

/// Parses strictly by RFC 8259. `text` must have BROKER_JSON_PADDING readable bytes after its end.
/// On success the caller owns `*tape` and frees it; on failure `*tape` is empty and `*fault_offset` is the byte at fault.
/// BROKER_JSON_UNCLOSED_STRING means any fault of the characters and strings, wherever it is: simdjson does not say.
/// `take` may be null; what it granted is given back before the end, except the tape's `count` elements and `unescaped_capacity`.
broker_json_status broker_json_parse(const uint8_t *text, size_t length, uint32_t maximum_depth,
                                     broker_json_take take, void *take_context,
                                     broker_json_tape *tape, size_t *fault_offset);

/// A JSON number's text as the nearest double. False when it is out of a double's range.
bool broker_json_double(const uint8_t *text, size_t length, double *value);

#ifdef __cplusplus
}
#endif

#endif
