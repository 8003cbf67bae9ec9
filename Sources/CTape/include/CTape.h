// The flat tape over a JSON text, which two parsers build: the one of BrokerJSON, in Swift, and the one of CSimdjson.
//
// Invariants
//  1. The tape is the document in order; an element's `span` counts it and everything below it.
//  2. An object's members alternate key (a string), value.
//  3. A string without escapes is an (offset, length) into the text: never copied. One with escapes lies in `unescaped`.
#ifndef BROKER_CTAPE_H
#define BROKER_CTAPE_H

#include <stddef.h>
#include <stdint.h>

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

/// `elements` and `unescaped` come from `malloc`. The owner frees `elements`, and `unescaped` later: rows may point into it.
typedef struct {
    broker_json_element *elements;
    size_t count;
    uint8_t *unescaped;
    size_t unescaped_length;
    size_t unescaped_capacity;
} broker_json_tape;

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

#endif
