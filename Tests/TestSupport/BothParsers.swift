internal import BrokerFastJSON
public import BrokerJSON

/// Parses a text by the parser in Swift and by simdjson, which must agree.
public enum BothParsers {
    /// Returns the result of the parser in Swift.
    ///
    /// - Parameter differs: called with how the parsers differ.
    public static func parse(
        _ text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth, _ differs: (String) -> Void
    ) throws(JSONError) -> JSONDocument {
        let swift = Result { () throws(JSONError) in try JSONDocument(parsing: text, maximumDepth: maximumDepth) }
        let fast = Result { () throws(JSONError) in try JSONDocument(fast: text, maximumDepth: maximumDepth) }
        if let difference = difference(swift, fast, in: text) { differs(difference) }
        return try swift.get()
    }

    private static func difference(
        _ swift: Result<JSONDocument, JSONError>, _ fast: Result<JSONDocument, JSONError>, in text: JSONText
    ) -> String? {
        switch (swift, fast) {
        case (.success(let swift), .success(let fast)):
            return withExtendedLifetime((swift, fast)) {
                swift.memory >= fast.elementCount && swift.elementCount == fast.elementCount
                    ? difference(swift.root, fast.root)
                    : "\(swift.elementCount) elements, and \(fast.elementCount) by simdjson"
            }
        case (.failure(let swift), .failure(let fast)):
            // simdjson reads a backslash outside of strings as an escape, so it sees other strings after it.
            guard swift != fast, !hasBackslashOutsideOfStrings(text.bytes) else { return nil }
            return "refused with \(swift), and by simdjson with \(fast)"
        case (.success, .failure(let fast)): return "accepted, and refused by simdjson with \(fast)"
        case (.failure(let swift), .success): return "refused with \(swift), and accepted by simdjson"
        }
    }

    private static func difference(_ swift: JSONValue, _ fast: JSONValue) -> String? {
        guard swift.kind == fast.kind, swift.offset == fast.offset, swift.elementCount == fast.elementCount,
            swift.isIntegral == fast.isIntegral, swift.hadEscapes == fast.hadEscapes, swift.hasBytes(fast.bytes)
        else {
            return "\(swift.kind) at \(swift.offset) of \(swift.bytes.count) bytes, and by simdjson \(fast.kind) at "
                + "\(fast.offset) of \(fast.bytes.count)"
        }
        if swift.kind == .number, swift.double != Double(fastJSONNumber: fast.bytes) { return "another double" }
        for (left, right) in zip(swift.elements, fast.elements) {
            if let difference = difference(left, right) { return difference }
        }
        for (left, right) in zip(swift.members, fast.members) {
            if let difference = difference(left.key, right.key) ?? difference(left.value, right.value) {
                return difference
            }
        }
        return nil
    }

    private static func hasBackslashOutsideOfStrings(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var isInString = false
        var index = 0
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\\") where !isInString: return true
            case UInt8(ascii: "\\"): index += 1
            case UInt8(ascii: "\""): isInString.toggle()
            default: break
            }
            index += 1
        }
        return false
    }
}
