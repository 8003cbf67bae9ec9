internal import BrokerJSON
package import BrokerModel

/// The conversion of an attribute's stored values to another type. They become what a record would bring that says what a
/// fetch prints of them, so that the same records change nothing afterwards.
package struct ValueConversion: Sendable {
    private let writer: ValueWriter
    private let type: AttributeType
    /// The formats of the new attribute.
    private let dates: ValueConverter.Dates
    /// That of the new attribute; nil for one that is no scaled decimal.
    private let scale: Int?

    /// - Precondition: the attributes are those of a store and of a plan, so that their formats can be read.
    package init(from old: Attribute, to new: Attribute) {
        writer = ValueWriter(old, Self.converter(old), .model)
        dates = Self.converter(new).dates
        type = new.type
        scale = new.decimalScale
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

    /// Calls `body` with the converted value, which is valid during the call.
    ///
    /// A value that another program stored in another form becomes the text that it is printed as; so does a value with
    /// more digits than the scale of the new attribute allows.
    package func convert(_ cell: Cell, _ body: (Cell) -> Void) {
        switch (type, cell.kind) {
        case (_, .null), (_, .absent), (_, .object): body(.null)
        case (.double, .integer): body(.real(Double(cell.integer)))
        case (.transformable, _):
            var writer = JSONWriter()
            self.writer.write(cell, to: &writer)
            let isNull = writer.bytes.elementsEqual("null".utf8)
            writer.bytes.withUnsafeBufferPointer { body(isNull ? .null : .text($0)) }
        case (.decimal, _):
            var arena = ByteArena()
            writer.keyText(cell).withUnsafeBufferPointer { text in
                if let scale, let units = NumberText(text)?.scaled(by: scale).int64 { return body(.integer(units)) }
                body(.text(NumberText(text).flatMap { DecimalText.normalise($0, arena: &arena) } ?? text))
            }
        case (.date, .text): convert(day: cell, body)
        default: writer.keyText(cell).withUnsafeBufferPointer { body(.text($0)) }
        }
    }

    /// The instant at which a day begins in the time zone of the dates.
    private func convert(day: Cell, _ body: (Cell) -> Void) {
        guard let instant = ISO8601.instant(day.bytes, zone: dates.zone) else { return body(day) }
        var arena = ByteArena()
        switch dates.storage {
        case .iso8601: body(.text(ISO8601.write(instant, arena: &arena)))
        case .unix: body(.integer(Int64(instant.seconds)))
        case .coreData: body(.real(instant.secondsSinceCoreDataReference))
        }
    }
}
