package import BrokerJSON
package import BrokerModel

/// Writes one attribute's stored values as JSON, the reverse of the conversion that stored them. A value whose dates are
/// in the model's formats becomes the same stored value when it is processed. Immutable, shared by all readers.
package final class ValueWriter: Sendable {
    private let type: AttributeType
    fileprivate let converter: ValueConverter
    /// For dates in the model's formats: the attribute's first format.
    private let format: DateFormat?
    /// Dates are written as seconds since 1970.
    private let isUnixTime: Bool

    init(_ attribute: Attribute, _ converter: ValueConverter, _ dates: FetchDates) {
        type = attribute.type
        self.converter = converter
        isUnixTime = dates == .model && converter.dates.writesUnixTime
        let hasFormat = attribute.type.isDate && dates == .model && !isUnixTime
        format = hasFormat ? converter.dates.formats.first : nil
    }

    /// Writes a column's value. A value of another type, which another program stored, is written by its stored type.
    ///
    /// A transformable's text must be JSON.
    package func write(_ cell: Cell, to writer: inout JSONWriter) {
        switch (type, cell.kind) {
        case (_, .null), (_, .absent), (_, .object): writer.null()
        case (.boolean, .integer) where cell.integer == 0 || cell.integer == 1: writer.bool(cell.integer == 1)
        case (.date, _): writeDate(cell, to: &writer)
        case (.calendarDate, .text): writeDay(cell.bytes, to: &writer)
        case (.decimal, .text) where NumberText(cell.bytes)?.isJSON(cell.bytes) ?? false: writer.raw(cell.bytes)
        case (.transformable, .text): writeLine(cell.bytes, to: &writer)
        case (.decimal, .integer) where converter.scale != nil:
            writer.raw(ScaledDecimal.text(cell.integer, scale: converter.scale!))
        case (_, .integer): writer.integer(cell.integer)
        case (_, .real): writer.double(cell.real)
        case (_, .text): writer.text(cell.bytes)
        case (_, .blob): writer.string(ofBytes: Base64.encode(cell.bytes))
        }
    }

    /// Writes JSON on one line, because answers are read by lines. In JSON of another program a line break is a space: strings have none.
    private func writeLine(_ json: UnsafeBufferPointer<UInt8>, to writer: inout JSONWriter) {
        func isBreak(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }
        guard json.contains(where: isBreak) else { return writer.raw(json) }
        writer.raw(json.map { isBreak($0) ? UInt8(ascii: " ") : $0 })
    }

    /// Returns the value as the text of a key in a dictionary.
    package func keyText(_ cell: Cell) -> [UInt8] {
        var writer = JSONWriter(capacity: 32)
        switch (type, cell.kind) {
        case (.transformable, .text): return Array(cell.bytes)
        case (_, .text) where !type.isDate: return Array(cell.bytes)
        case (_, .blob): return Base64.encode(cell.bytes)
        default: write(cell, to: &writer)
        }
        let text = writer.bytes
        return text.first == UInt8(ascii: "\"") ? Array(text.dropFirst().dropLast()) : text
    }

    // MARK: - Dates

    private func writeDate(_ cell: Cell, to writer: inout JSONWriter) {
        if converter.dates.keepsText, cell.kind == .text, format == nil, !isUnixTime {
            var arena = ByteArena()
            if let text = ISO8601.stored(cell.bytes, arena: &arena) { return writer.string(text) }
        }
        guard let instant = converter.dates.instant(cell) else {
            return cell.kind == .text ? writer.text(cell.bytes) : writer.null()
        }
        guard !isUnixTime else { return writer.raw(instant.secondsText) }
        var arena = ByteArena()
        let iso = ISO8601.write(instant, digits: digits(of: instant), arena: &arena)
        guard let format else { return writer.string(iso) }
        // A format that loses part of a time, or whose text means two times, would change the value.
        let text = format.text(of: instant)
        if text.withUnsafeBufferPointer({ reads($0, as: instant) }) { return writer.string(ofBytes: text) }
        if reads(iso, as: instant) { return writer.string(iso) }
        writer.raw(instant.secondsText)
    }

    private func writeDay(_ stored: UnsafeBufferPointer<UInt8>, to writer: inout JSONWriter) {
        guard let format, let day = ISO8601.day(stored) else { return writer.text(stored) }
        let text = format.text(of: day.midnight)
        // A format of a year of two digits would change the century.
        let isSame = text.withUnsafeBufferPointer { converter.day($0) } == day
        isSame ? writer.string(ofBytes: text) : writer.text(stored)
    }

    /// Whether processing that text stores that time.
    private func reads(_ text: UnsafeBufferPointer<UInt8>, as instant: Instant) -> Bool {
        let dates = converter.dates
        for format in dates.formats {
            if let read = format.instant(text) { return dates.isSame(read, instant) }
        }
        return ISO8601.instant(text, zone: dates.zone).map { dates.isSame($0, instant) } ?? false
    }

    /// The digits of the second's fraction in a printed time: those of its attribute, or as many as a time has that is
    /// stored as a number.
    private func digits(of instant: Instant) -> Int {
        guard converter.dates.storage != .iso8601 else { return converter.dates.precision }
        return [3, 6].first { instant.nanoseconds % Instant.unit(digits: $0) == 0 } ?? 9
    }
}

extension Instant {
    /// Seconds since 1970 as a JSON number.
    fileprivate var secondsText: [UInt8] {
        guard nanoseconds > 0 else { return Array(String(seconds).utf8) }
        // Before 1970 the fraction counts away from zero.
        let isNegative = seconds < 0
        let whole = isNegative ? -(seconds + 1) : seconds
        let fraction = isNegative ? Self.nanosecondsPerSecond - nanoseconds : nanoseconds
        let digits = String(fraction)
        let zeros = String(repeating: "0", count: 9 - digits.utf8.count)
        return Array("\(isNegative ? "-" : "")\(whole).\(zeros)\(digits)".utf8)
    }
}

extension JSONWriter {
    fileprivate mutating func string(ofBytes bytes: [UInt8]) { bytes.withUnsafeBufferPointer { string($0) } }

    /// Writes a string; invalid UTF-8, which another program stored, is repaired.
    fileprivate mutating func text(_ bytes: UnsafeBufferPointer<UInt8>) {
        if bytes.allSatisfy({ $0 < 0x80 }) { string(bytes) } else { string(String(decoding: bytes, as: UTF8.self)) }
    }
}

/// The conversion of an attribute's stored values to another type. They become what a record would bring that says what a
/// fetch prints of them, so that the same records change nothing afterwards.
package struct ValueConversion: Sendable {
    private let writer: ValueWriter
    private let former: AttributeType
    private let new: ValueConverter
    /// The path in `_extra` of values that the new attribute does not hold; nil where no record brings it.
    private let path: [UInt8]?
    /// The values are other objects' `_extra`.
    private let isExtra: Bool

    /// - Precondition: the attributes are those of a store and of a plan, so that their formats can be read.
    package init(from old: Attribute, to new: Attribute) {
        writer = ValueWriter(old, Self.converter(old), .model)
        former = old.type
        self.new = Self.converter(new)
        path = new.recordPaths.first.map(ExtraValues.path)
        isExtra = new.isExtra
    }

    private static func converter(_ attribute: Attribute) -> ValueConverter {
        var plain = attribute
        plain.constraints = ValueConstraints()
        plain.defaultValue = nil
        do throws(ModelError) {
            return try .compiled(plain)
        } catch {
            preconditionFailure("a plan's formats can be read")
        }
    }

    /// Calls `body` with the converted value, which is valid during the call: NULL for one that the new attribute does not hold
    /// exactly.
    ///
    /// A value that another program stored in another form becomes the text that it is printed as.
    package func convert(_ cell: Cell, _ body: (Cell) -> Void) {
        switch (new.type, cell.kind) {
        case (_, .null), (_, .absent), (_, .object): body(.null)
        case (.calendarDate, _) where former == .date: convert(timeToDay: cell, body)
        case (.date, _) where former.isDate: convert(date: cell, body)
        case _ where former != new.type && new.type.change(from: former) == nil: read(cell, body)
        case (.double, .integer): body(Double(exactly: cell.integer).map(Cell.real) ?? .null)
        case (.transformable, _):
            var writer = JSONWriter()
            self.writer.write(cell, to: &writer)
            let isNull = writer.bytes.elementsEqual("null".utf8)
            writer.bytes.withUnsafeBufferPointer { body(isNull ? .null : .text($0)) }
        case (.decimal, _):
            var arena = ByteArena()
            writer.keyText(cell).withUnsafeBufferPointer { text in
                if let scale = new.scale {
                    return body(NumberText(text)?.scaled(by: scale).int64.map(Cell.integer) ?? .null)
                }
                body(.text(NumberText(text).flatMap { DecimalText.normalise($0, arena: &arena) } ?? text))
            }
        default: writer.keyText(cell).withUnsafeBufferPointer { body(.text($0)) }
        }
    }

    /// As a record would bring the value.
    private func read(_ cell: Cell, _ body: (Cell) -> Void) {
        var arena = ByteArena()
        do {
            let value = try JSONDocument(fast: JSONText(copying: json(cell)))
            let read = try new.convert(value.root, arena: &arena)
            body(arena.isInexact || arena.isPadded ? .null : read)
        } catch {
            body(.null)
        }
    }

    private func json(_ cell: Cell) -> [UInt8] {
        var writer = JSONWriter()
        self.writer.write(cell, to: &writer)
        return writer.bytes
    }

    /// A time, with its new digits, or the beginning of a day. What another program stored in another form stays.
    private func convert(date: Cell, _ body: (Cell) -> Void) {
        let time =
            former == .date
            ? writer.converter.dates.instant(date) : ISO8601.instant(date.bytes, zone: new.dates.zone)
        guard let time else { return body(date.kind == .text && new.dates.storage == .iso8601 ? date : .null) }
        var arena = ByteArena()
        body(new.dates.isExact(time) ? new.dates.cell(of: time, arena: &arena) : .null)
    }

    /// The beginning of a day in the time's zone.
    private func convert(timeToDay cell: Cell, _ body: (Cell) -> Void) {
        let zone = writer.converter.dates.zone
        guard let time = writer.converter.dates.instant(cell),
            let day = try? DateFormat(pattern: "yyyy-MM-dd", zone: zone).text(of: time)
        else { return body(.null) }
        day.withUnsafeBufferPointer { body(ISO8601.instant($0, zone: zone) == time ? .text($0) : .null) }
    }

    /// The column `_extra` of a row with a value, which it gets where the new attribute does not hold the value; nil where it does.
    package func extra(_ column: Cell, taking cell: Cell) throws(TooManyExtraKeys) -> [UInt8]? {
        var isHeld = cell.kind == .null
        if !isHeld, !isExtra { convert(cell) { isHeld = $0.kind != .null } }
        guard !isHeld, let path else { return nil }
        var entries: [UInt8] = []
        json(cell).withUnsafeBufferPointer { ExtraValues.add(path, $0, to: &entries) }
        return try ExtraValues.applied(entries, to: column.kind == .text ? column.bytes : nil)
    }
}
