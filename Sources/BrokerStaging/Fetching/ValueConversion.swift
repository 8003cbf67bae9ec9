internal import BrokerJSON
package import BrokerModel

/// The conversion of an attribute's stored values to another type. They become what a record would bring that says what a
/// fetch prints of them, so that the same records change nothing afterwards.
package struct ValueConversion: Sendable {
    private let writer: ValueWriter
    private let type: AttributeType
    /// Those of the new attribute.
    private let dates: ValueConverter.Dates
    /// The zone of days, and of times that another program stored without one.
    private let zone: LocalZone
    /// That of the new attribute; nil for one that is no scaled decimal.
    private let scale: Int?

    /// - Precondition: the attributes are those of a store and of a plan, so that their formats can be read.
    package init(from old: Attribute, to new: Attribute) {
        writer = ValueWriter(old, Self.converter(old), .model)
        dates = Self.converter(new).dates
        zone = old.type == .date ? .utc : dates.zone
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
        case (.date, .text): convert(date: cell, body)
        default: writer.keyText(cell).withUnsafeBufferPointer { body(.text($0)) }
        }
    }

    /// A time, with its new digits, or the beginning of a day. What another program stored in another form stays.
    private func convert(date: Cell, _ body: (Cell) -> Void) {
        guard let instant = ISO8601.instant(date.bytes, zone: zone) else { return body(date) }
        var arena = ByteArena()
        body(dates.cell(of: instant, arena: &arena))
    }
}
