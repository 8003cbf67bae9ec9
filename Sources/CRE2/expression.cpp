#include "CRE2.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <re2/re2.h>

struct broker_re2 {
    broker_re2(const re2::StringPiece &pattern, const re2::RE2::Options &options) : expression(pattern, options) {}

    re2::RE2 expression;
    int32_t program_size = 0;
};

namespace {

void copy_text(const std::string &text, char *copy, size_t capacity) {
    if (copy == nullptr || capacity == 0) return;
    const size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(copy, text.data(), length);
    copy[length] = 0;
}

re2::StringPiece piece(const uint8_t *bytes, size_t length) {
    return re2::StringPiece(length == 0 ? "" : reinterpret_cast<const char *>(bytes), length);
}

broker_re2_fault fault_of(re2::RE2::ErrorCode code) {
    switch (code) {
    case re2::RE2::ErrorBadEscape: return BROKER_RE2_FAULT_ESCAPE;
    case re2::RE2::ErrorBadCharClass: return BROKER_RE2_FAULT_CLASS;
    case re2::RE2::ErrorBadCharRange: return BROKER_RE2_FAULT_RANGE;
    case re2::RE2::ErrorMissingBracket: return BROKER_RE2_FAULT_BRACKET;
    // Earlier versions report the parenthesis that does not open as one that is missing.
    case re2::RE2::ErrorMissingParen: return BROKER_RE2_FAULT_PARENTHESIS;
    case re2::RE2::ErrorUnexpectedParen: return BROKER_RE2_FAULT_PARENTHESIS;
    case re2::RE2::ErrorTrailingBackslash: return BROKER_RE2_FAULT_BACKSLASH;
    case re2::RE2::ErrorRepeatArgument: return BROKER_RE2_FAULT_REPEATED;
    case re2::RE2::ErrorRepeatSize: return BROKER_RE2_FAULT_COUNT;
    case re2::RE2::ErrorRepeatOp: return BROKER_RE2_FAULT_REPETITION;
    case re2::RE2::ErrorBadPerlOp: return BROKER_RE2_FAULT_GROUP;
    case re2::RE2::ErrorBadNamedCapture: return BROKER_RE2_FAULT_NAME;
    default: return BROKER_RE2_FAULT_OTHER;
    }
}

}  // namespace

broker_re2 *broker_re2_compile(const uint8_t *pattern, size_t length, bool ignores_case, int64_t maximum_memory,
                               broker_re2_fault *fault, char *fragment, size_t fragment_capacity,
                               broker_re2_status *status) {
    broker_re2 *compiled = nullptr;
    try {
        re2::RE2::Options options;
        options.set_log_errors(false);
        options.set_never_capture(true);
        options.set_case_sensitive(!ignores_case);
        options.set_max_mem(maximum_memory);
        compiled = new broker_re2(piece(pattern, length), options);
        const re2::RE2 &expression = compiled->expression;
        *status = BROKER_RE2_OK;
        if (!expression.ok()) {
            const auto code = expression.error_code();
            *status = code == re2::RE2::ErrorPatternTooLarge ? BROKER_RE2_TOO_LARGE : BROKER_RE2_INVALID;
            *fault = fault_of(code);
            copy_text(expression.error_arg(), fragment, fragment_capacity);
        } else {
            // RE2 compiles the backward program when a match needs it first; here, so that it is checked as well.
            const int backward = expression.ReverseProgramSize();
            if (backward < 0) *status = BROKER_RE2_TOO_LARGE;
            compiled->program_size = std::max(expression.ProgramSize(), backward);
        }
    } catch (...) {
        *status = BROKER_RE2_OUT_OF_MEMORY;
    }
    if (*status == BROKER_RE2_OK) return compiled;
    broker_re2_free(compiled);
    return nullptr;
}

int32_t broker_re2_program_size(const broker_re2 *expression) { return expression->program_size; }

broker_re2_result broker_re2_match(const broker_re2 *expression, const uint8_t *text, size_t length, bool whole) {
    try {
        const auto anchor = whole ? re2::RE2::ANCHOR_BOTH : re2::RE2::UNANCHORED;
        const bool matches = expression->expression.Match(piece(text, length), 0, length, anchor, nullptr, 0);
        return matches ? BROKER_RE2_MATCH : BROKER_RE2_NO_MATCH;
    } catch (...) {
        return BROKER_RE2_MATCH_OUT_OF_MEMORY;
    }
}

void broker_re2_free(broker_re2 *expression) { delete expression; }

bool broker_contains(const uint8_t *text, size_t length, const uint8_t *bytes, size_t count) {
    return memmem(text, length, bytes, count) != nullptr;
}
