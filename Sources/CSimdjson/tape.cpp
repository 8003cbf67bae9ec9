#include "CSimdjson.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <simdjson.h>

static_assert(BROKER_JSON_PADDING >= simdjson::SIMDJSON_PADDING, "the padding that callers leave is too small");

namespace {

using Indexer = std::unique_ptr<simdjson::internal::dom_parser_implementation>;

/// Each thread retains scratch space for texts up to this size (bytes), four bytes for each of the text; that for longer
/// texts is allocated and freed again: one large job must not hold memory for good.
constexpr size_t kKeptCapacity = 2 << 20;
constexpr size_t kMinimumCapacity = 4 << 10;
constexpr size_t kIndexSize = sizeof(uint32_t);

thread_local Indexer kept_indexer;

/// The memory of a parse; it is freed at the end unless the result retains it.
class Memory {
public:
    Memory(broker_json_take take, void *context) : take_(take), context_(context) {}
    ~Memory() { give_back(taken_); }

    bool take(size_t bytes) {
        if (take_ != nullptr && !take_(context_, ptrdiff_t(bytes))) return false;
        taken_ += bytes;
        return true;
    }

    void give_back(size_t bytes) {
        if (take_ != nullptr && bytes > 0) take_(context_, -ptrdiff_t(bytes));
        taken_ -= bytes;
    }

    /// So much of it is the caller's now.
    void keep(size_t bytes) { taken_ -= bytes; }

private:
    broker_json_take take_;
    void *context_;
    size_t taken_ = 0;
};

bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
/// Whether the byte may follow a number or a literal.
[[gnu::always_inline]] inline bool ends_scalar(uint8_t c) { return is_space(c) || c == ',' || c == ']' || c == '}' || c == ':'; }

int hex_value(const uint8_t *p) {
    const char *digits = reinterpret_cast<const char *>(p);
    unsigned value = 0;
    return std::from_chars(digits, digits + 4, value, 16).ptr == digits + 4 ? int(value) : -1;
}

/// The first escape in a string's content that RFC 8259 does not know, or a surrogate without its partner.
const uint8_t *bad_escape(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        if (*p != '\\') { p++; continue; }
        const uint8_t *escape = p;
        if (p[1] != 'u') {
            if (p[1] == 0 || !std::strchr("\"\\/bfnrt", p[1])) return escape;
            p += 2;
            continue;
        }
        if (end - p < 6) return escape;
        const int unit = hex_value(p + 2);
        if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) return escape;
        p += 6;
        if (unit >= 0xD800 && unit <= 0xDBFF) {
            if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return escape;
            const int low = hex_value(p + 2);
            if (low < 0xDC00 || low > 0xDFFF) return escape;
            p += 6;
        }
    }
    return end;
}

/// As many structural characters as simdjson can find in a text, or more: brackets, commas, colons and quotes, and what
/// begins after one of them or after white space, inside and outside of strings.
size_t most_structurals(const uint8_t *text, size_t length) {
    // Blocks whose count fits a byte, and bytes alone in the loops, so that the compiler makes vector code of them.
    constexpr size_t kBlock = 240;
    uint8_t marks[kBlock];
    // Whether something may begin after the byte before.
    uint8_t breaks[kBlock + 1];
    breaks[0] = 1;
    size_t count = 0;
    for (size_t start = 0; start < length; start += kBlock) {
        const size_t size = length - start < kBlock ? length - start : kBlock;
        for (size_t i = 0; i < size; i++) {
            const uint8_t c = text[start + i];
            // Brackets and braces differ by this bit.
            const uint8_t brace = uint8_t(c | 0x20);
            marks[i] = uint8_t(uint8_t(brace == '{') | uint8_t(brace == '}') | uint8_t(c == ',') | uint8_t(c == ':') |
                               uint8_t(c == '"'));
            breaks[i + 1] = uint8_t(marks[i] | uint8_t(c <= ' '));
        }
        uint8_t in_block = 0;
        for (size_t i = 0; i < size; i++) in_block = uint8_t(in_block + uint8_t(marks[i] | breaks[i]));
        count += in_block;
        breaks[0] = breaks[size];
    }
    return count;
}

/// Walks the structural characters once and writes the tape.
class TapeBuilder {
public:
    TapeBuilder(const uint8_t *text, size_t length, uint32_t maximum_depth, Indexer &indexer, Memory &memory,
                broker_json_tape *tape)
        : text_(text), length_(length), maximum_depth_(maximum_depth), indexer_(indexer), memory_(memory),
          structural_(indexer->structural_indexes.get()), structural_end_(structural_ + indexer->n_structural_indexes),
          tape_(tape) {}

    broker_json_status build(size_t *fault) {
        const size_t size = most_elements() * sizeof(broker_json_element);
        if (!memory_.take(size)) return BROKER_JSON_NO_ROOM;
        tape_->elements = static_cast<broker_json_element *>(std::malloc(size));
        if (maximum_depth_ > kUsualDepth) {
            deep_stack_.reset(new (std::nothrow) uint32_t[maximum_depth_ + 1]);
            stack_ = deep_stack_.get();
        }
        if (!tape_->elements || !stack_) return BROKER_JSON_OUT_OF_MEMORY;
        next_ = tape_->elements;
        const broker_json_status status = document();
        if (status != BROKER_JSON_OK) *fault = fault_;
        return status;
    }

private:
    /// Every element begins at a structural character of its own that is none of these; in JSON there are no others.
    ///
    /// They need not be counted in a long text: each element but the first comes after a comma or colon of its own or, the
    /// first in its container, before the closing bracket. Only the containers that are open have none.
    size_t most_elements() const {
        const size_t structurals = size_t(structural_end_ - structural_);
        if (structurals > kCountedStructurals) return std::min(structurals, (structurals + maximum_depth_) / 2 + 1);
        size_t count = 0;
        for (const uint32_t *place = structural_; place < structural_end_; place++) {
            const uint8_t c = text_[*place];
            count += !((c == ',') | (c == ':') | (c == ']') | (c == '}'));
        }
        return count == 0 ? 1 : count;
    }

    [[gnu::noinline, gnu::cold]] broker_json_status fail(broker_json_status status, size_t at) {
        fault_ = at;
        return status;
    }

    bool at_end() const { return structural_ == structural_end_; }
    size_t here() const { return at_end() ? length_ : *structural_; }
    uint8_t peek() const { return at_end() ? 0 : text_[*structural_]; }

    [[gnu::always_inline]] broker_json_element *push(uint8_t kind, size_t offset, size_t length, uint8_t flags = 0) {
        *next_ = {uint32_t(offset), uint32_t(length), 1, kind, flags, 0};
        return next_++;
    }

    /// A container's closing bracket has been reached: its element learns where it ends.
    void close() {
        broker_json_element *opened = tape_->elements + stack_[--depth_];
        opened->length = uint32_t(*structural_++ + 1 - opened->offset);
        opened->span = uint32_t(next_ - opened);
    }

    broker_json_status document() {
        broker_json_status status = value();
        while (status == BROKER_JSON_OK && depth_ > 0) status = contents();
        tape_->count = size_t(next_ - tape_->elements);
        if (status != BROKER_JSON_OK) return status;
        return at_end() ? BROKER_JSON_OK : fail(BROKER_JSON_TRAILING_CONTENT, here());
    }

    /// The rest of the innermost container, until it ends or another one begins in it.
    broker_json_status contents() {
        const broker_json_element *container = tape_->elements + stack_[depth_ - 1];
        return container->kind == BROKER_JSON_OBJECT ? contents<true>(container) : contents<false>(container);
    }

    template <bool is_object>
    broker_json_status contents(const broker_json_element *container) {
        bool is_first = next_ == container + 1;
        for (const uint32_t depth = depth_; depth == depth_; is_first = false) {
            if (at_end()) return fail(BROKER_JSON_UNCLOSED_CONTAINER, container->offset);
            if (peek() == (is_object ? '}' : ']')) {
                close();
                return BROKER_JSON_OK;
            }
            if (!is_first) {
                if (peek() != ',') return fail(BROKER_JSON_EXPECTED_COMMA_OR_END, here());
                structural_++;
            }
            const broker_json_status status = is_object ? member() : value();
            if (status != BROKER_JSON_OK) return status;
        }
        return BROKER_JSON_OK;
    }

    [[gnu::always_inline]] broker_json_status member() {
        if (peek() != '"') return fail(BROKER_JSON_EXPECTED_KEY, here());
        const broker_json_status status = string();
        if (status != BROKER_JSON_OK) return status;
        if (peek() != ':') return fail(BROKER_JSON_EXPECTED_COLON, here());
        structural_++;
        return value();
    }

    [[gnu::always_inline]] broker_json_status value() {
        if (at_end()) return fail(BROKER_JSON_EXPECTED_VALUE, length_);
        const size_t at = *structural_;
        switch (text_[at]) {
        case '"': return string();
        case '{': return open(BROKER_JSON_OBJECT, at);
        case '[': return open(BROKER_JSON_ARRAY, at);
        case 't': return literal(BROKER_JSON_TRUE, "true", 4, at);
        case 'f': return literal(BROKER_JSON_FALSE, "false", 5, at);
        case 'n': return literal(BROKER_JSON_NULL, "null", 4, at);
        case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
            return number(at);
        case ',': case ':': case ']': case '}': return fail(BROKER_JSON_EXPECTED_VALUE, at);
        default: return fail(BROKER_JSON_BAD_LITERAL, at);
        }
    }

    broker_json_status open(uint8_t kind, size_t at) {
        if (depth_ == maximum_depth_) return fail(BROKER_JSON_TOO_DEEP, at);
        stack_[depth_++] = uint32_t(next_ - tape_->elements);
        push(kind, at, 0);
        structural_++;
        return BROKER_JSON_OK;
    }

    [[gnu::always_inline]] broker_json_status literal(uint8_t kind, const char *word, size_t size, size_t at) {
        if (length_ - at < size || std::memcmp(text_ + at, word, size) != 0 ||
            (at + size < length_ && !ends_scalar(text_[at + size])))
            return fail(BROKER_JSON_BAD_LITERAL, at);
        push(kind, at, size);
        structural_++;
        return BROKER_JSON_OK;
    }

    [[gnu::always_inline]] broker_json_status number(size_t at) {
        const uint8_t *p = text_ + at, *end = text_ + length_;
        auto digits = [&] { const uint8_t *first = p; while (p < end && is_digit(*p)) p++; return p != first; };
        uint8_t flags = BROKER_JSON_INTEGRAL;
        if (*p == '-') p++;
        if (p < end && *p == '0') p++;
        else if (!digits()) return fail(BROKER_JSON_BAD_NUMBER, at);
        if (p < end && *p == '.') {
            p++;
            flags = 0;
            if (!digits()) return fail(BROKER_JSON_BAD_NUMBER, at);
        }
        if (p < end && (*p | 32) == 'e') {
            p++;
            flags = 0;
            if (p < end && (*p == '+' || *p == '-')) p++;
            if (!digits()) return fail(BROKER_JSON_BAD_NUMBER, at);
        }
        if (p < end && !ends_scalar(*p)) return fail(BROKER_JSON_BAD_NUMBER, at);
        push(BROKER_JSON_NUMBER, at, size_t(p - text_) - at, flags);
        structural_++;
        return BROKER_JSON_OK;
    }

    [[gnu::always_inline]] broker_json_status string() {
        const size_t at = *structural_++;
        // Only white space can lie between the closing quote and the next structural character.
        const uint8_t *content = text_ + at + 1, *close = text_ + here() - 1;
        while (*close != '"') close--;
        const size_t size = size_t(close - content);
        if (!has_escape(content, content + size)) {
            push(BROKER_JSON_STRING, at + 1, size);
            return BROKER_JSON_OK;
        }
        return escaped_string(content, size);
    }

    /// Strings are asked for in the order of the text, so that no byte is looked at twice.
    [[gnu::always_inline]] bool has_escape(const uint8_t *start, const uint8_t *end) {
        if (escape_ < start) {
            const void *found = std::memchr(start, '\\', size_t(text_ + length_ - start));
            escape_ = found == nullptr ? text_ + length_ : static_cast<const uint8_t *>(found);
        }
        return escape_ < end;
    }

    /// Unescaping never lengthens; a string needs four bytes of header beside its content, and padding to write over.
    broker_json_status make_room_unescaped(size_t size) {
        const size_t wanted = tape_->unescaped_length + sizeof(uint32_t) + size + BROKER_JSON_PADDING;
        if (wanted <= tape_->unescaped_capacity) return BROKER_JSON_OK;
        const size_t doubled = tape_->unescaped_capacity * 2;
        const size_t capacity = wanted > doubled ? wanted : doubled;
        // Elements hold offsets into it, so it may move.
        if (!memory_.take(capacity - tape_->unescaped_capacity)) return BROKER_JSON_NO_ROOM;
        uint8_t *grown = static_cast<uint8_t *>(std::realloc(tape_->unescaped, capacity));
        if (grown == nullptr) return BROKER_JSON_OUT_OF_MEMORY;
        tape_->unescaped = grown;
        tape_->unescaped_capacity = capacity;
        return BROKER_JSON_OK;
    }

    [[gnu::noinline]] broker_json_status escaped_string(const uint8_t *content, size_t size) {
        const broker_json_status room = make_room_unescaped(size);
        if (room != BROKER_JSON_OK) return room;
        const uint32_t text_offset = uint32_t(content - text_);
        uint8_t *header = tape_->unescaped + tape_->unescaped_length;
        std::memcpy(header, &text_offset, sizeof text_offset);
        uint8_t *start = header + sizeof text_offset;
        const uint8_t *end = bad_escape(content, content + size) == content + size
            ? indexer_->parse_string(content, start) : nullptr;
        if (end == nullptr) {
            return fail(BROKER_JSON_BAD_ESCAPE, size_t(bad_escape(content, content + size) - text_));
        }
        tape_->unescaped_length = size_t(end - tape_->unescaped);
        push(BROKER_JSON_STRING, size_t(start - tape_->unescaped), size_t(end - start), BROKER_JSON_UNESCAPED);
        return BROKER_JSON_OK;
    }

    const uint8_t *text_;
    size_t length_;
    uint32_t maximum_depth_;
    Indexer &indexer_;
    Memory &memory_;
    const uint32_t *structural_, *structural_end_;
    broker_json_tape *tape_;
    /// Where the next element goes.
    broker_json_element *next_ = nullptr;
    /// The first backslash from where it was last looked for, or the text's end.
    const uint8_t *escape_ = nullptr;
    /// The open containers' places on the tape; of the usual depth no memory has to be asked for.
    static constexpr uint32_t kUsualDepth = 512;
    /// For a longer text, a place for each level of the usual depth is little memory.
    static constexpr size_t kCountedStructurals = 8 << 10;
    uint32_t usual_stack_[kUsualDepth + 1];
    std::unique_ptr<uint32_t[]> deep_stack_;
    uint32_t *stack_ = usual_stack_;
    uint32_t depth_ = 0;
    size_t fault_ = 0;
};

}  // namespace

broker_json_status broker_json_parse(const uint8_t *text, size_t length, uint32_t maximum_depth,
                                     broker_json_take take, void *take_context,
                                     broker_json_tape *tape, size_t *fault_offset) {
    *tape = {};
    *fault_offset = 0;
    // Twice the length must still fit the 32-bit offsets of the unescaped strings.
    if (length > UINT32_MAX / 2 - BROKER_JSON_PADDING) return BROKER_JSON_TOO_LARGE;

    Memory memory(take, take_context);
    const bool is_long = length > kKeptCapacity;
    // The index has room for every byte, but only what is written of it is memory.
    const size_t most_scratch = is_long ? most_structurals(text, length) * kIndexSize : 0;
    if (!memory.take(most_scratch)) return BROKER_JSON_NO_ROOM;
    Indexer indexer = is_long ? nullptr : std::move(kept_indexer);
    const size_t wanted = length < kMinimumCapacity ? kMinimumCapacity : length;
    if (!indexer || indexer->capacity() < wanted) {
        indexer.reset();
        if (simdjson::get_active_implementation()->create_dom_parser_implementation(wanted, 1, indexer) != simdjson::SUCCESS)
            return BROKER_JSON_OUT_OF_MEMORY;
    }

    broker_json_status status;
    switch (indexer->stage1(text, length, simdjson::stage1_mode::regular)) {
    case simdjson::SUCCESS: {
        const size_t scratch = indexer->n_structural_indexes * kIndexSize;
        if (scratch < most_scratch) memory.give_back(most_scratch - scratch);
        status = TapeBuilder(text, length, maximum_depth, indexer, memory, tape).build(fault_offset);
        break;
    }
    case simdjson::EMPTY: *fault_offset = length; status = BROKER_JSON_EMPTY; break;
    case simdjson::MEMALLOC: case simdjson::CAPACITY: status = BROKER_JSON_OUT_OF_MEMORY; break;
    default: *fault_offset = length; status = BROKER_JSON_UNCLOSED_STRING; break;
    }
    if (!is_long) kept_indexer = std::move(indexer);
    if (status != BROKER_JSON_OK) {
        std::free(tape->elements);
        std::free(tape->unescaped);
        *tape = {};
        return status;
    }
    memory.keep(tape->count * sizeof(broker_json_element) + tape->unescaped_capacity);
    return status;
}

bool broker_json_double(const uint8_t *text, size_t length, double *value) {
    const char *first = reinterpret_cast<const char *>(text);
    const auto result = std::from_chars(first, first + length, *value);
    if (result.ec == std::errc() && result.ptr == first + length) return true;
    if (result.ec != std::errc::result_out_of_range) return false;
    // Too small is zero (or a subnormal), as everywhere; too large is a loss.
    const std::string copy(first, length);
    *value = std::strtod(copy.c_str(), nullptr);
    return *value > -1 && *value < 1;
}
