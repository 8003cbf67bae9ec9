internal import BrokerJSON

extension JobMessage.DeletionLimit {
    private static let field = "maximumDeletions"

    /// Reads `maximumDeletions`; nil when it is missing.
    init?(in root: JSONValue) throws(WireError) {
        guard let value = root[Self.field] else { return nil }
        if value.kind == .number, let count = try root.optionalCount(Self.field) {
            self = .objects(count)
            return
        }
        guard value.kind == .string else {
            throw value.isNo("a whole number, or a percentage in a string", at: "/\(Self.field)")
        }
        guard let limit = Self(percentage: value.bytes) else {
            throw WireError(
                .unsupportedMessage,
                """
                `\(Self.field)` is a whole number, or a percentage from 0% to 100% with at most three digits after the \
                point, such as "2.5%"; \(value.quotedBriefly) is neither.
                """, path: "/\(Self.field)")
        }
        self = limit
    }

    /// - Parameter text: such as `2.5%`.
    private init?(percentage text: some BidirectionalCollection<UInt8>) {
        guard text.count <= 8, text.last == UInt8(ascii: "%") else { return nil }
        let parts = text.dropLast().split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let whole = Self.digits(parts[0], 1...3) else { return nil }
        var thousandths = whole * 1_000
        if parts.count == 2 {
            guard let fraction = Self.digits(parts[1], 1...3) else { return nil }
            thousandths += (0..<3 - parts[1].count).reduce(fraction) { value, _ in value * 10 }
        }
        guard thousandths <= 100_000 else { return nil }
        self = .percent(thousandths: thousandths)
    }

    private static func digits(_ text: some Collection<UInt8>, _ counts: ClosedRange<Int>) -> Int? {
        guard counts.contains(text.count), text.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else {
            return nil
        }
        return text.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    }

    /// Writes the value.
    func write(to writer: inout JSONWriter) {
        writer.key(Self.field)
        switch self {
        case .objects(let count): writer.integer(count)
        case .percent(let thousandths):
            let fraction = String(String(thousandths % 1_000 + 1_000).dropFirst())
            writer.string("\(thousandths / 1_000)" + (thousandths % 1_000 == 0 ? "%" : ".\(fraction)%"))
        }
    }
}
