import BrokerCommandLine
import BrokerJSON
import Foundation

/// The greatest value of a key of records: of numbers, of dates of ISO 8601, or of texts of one form.
struct NewestValue {
    private enum Order: Equatable {
        case number(Double)
        case date(Date)
        /// Digits are compared, and all else is the same.
        case text(String)
    }

    private let path: [String]
    private var order: Order?
    /// As JSON; nil for none.
    private(set) var json: [UInt8]?

    init(of path: String) { self.path = path.split(separator: ".").map(String.init) }

    mutating func add(_ record: JSONValue) throws(CommandFailure) {
        guard let value = record.at(path), !value.isNull else { return }
        guard let new = Self.order(of: value) else {
            throw failure("\(value.quotedBriefly) is neither a number nor a date of ISO 8601")
        }
        switch (order, new) {
        case (nil, _): break
        case (.number(let old), .number(let new)): guard new > old else { return }
        case (.date(let old), .date(let new)): guard new > old else { return }
        case (.text(let old), .text(let new)) where Self.form(of: old) == Self.form(of: new):
            guard new > old else { return }
        default: throw failure("its values have several forms, one of which is \(value.quotedBriefly)")
        }
        (order, json) = (new, value.jsonText)
    }

    private func failure(_ reason: String) -> CommandFailure {
        CommandFailure("--since cannot tell which \(path.joined(separator: ".")) is the greatest: \(reason).")
    }

    private static func order(of value: JSONValue) -> Order? {
        if let number = value.double { return .number(number) }
        guard let text = value.string else { return nil }
        for hasFraction in [false, true] {
            if let date = try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: hasFraction)) {
                return .date(date)
            }
        }
        // Texts with zones of their own have another order.
        let isPlain = text.utf8.allSatisfy { "0123456789-:.T Z".utf8.contains($0) } && text.contains { $0.isNumber }
        return isPlain && !text.isEmpty ? .text(text) : nil
    }

    private static func form(of text: String) -> String { String(text.map { $0.isNumber ? "0" : $0 }) }
}
