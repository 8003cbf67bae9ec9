extension BrokerPredicate {
    /// The maximum bytes of a predicate's text.
    private static let longest = 1 << 20

    /// Finds what is wrong with a predicate whatever the model is, so that it need not be sent. A server finds the rest.
    ///
    /// - Throws: ``BrokerError/Code/notEncodable`` of an interpolated value, or ``BrokerError/Code/invalidPredicate``.
    package func check() throws(BrokerError) {
        if let fault { throw fault }
        if format.utf8.count > Self.longest {
            throw Self.invalid(
                "The predicate has \(format.utf8.count) bytes, and \(Self.longest) are allowed. Put long lists into the arguments."
            )
        }
        let wanted = try placeholderCount()
        guard wanted == arguments.count else {
            throw Self.invalid(
                "The predicate asks for \(wanted) argument\(wanted == 1 ? "" : "s") (one for each %@ and %K), "
                    + "and it has \(arguments.count).")
        }
    }

    /// How many `%@` and `%K` there are outside of strings.
    private func placeholderCount() throws(BrokerError) -> Int {
        var count = 0
        var isEmpty = true
        var quote: UInt8?
        var quoteColumn = 0
        var column = 0
        var bytes = format.utf8.makeIterator()
        while let byte = bytes.next() {
            if byte & 0xC0 != 0x80 { column += 1 }
            if byte != UInt8(ascii: " "), !(0x09...0x0D).contains(byte) { isEmpty = false }
            switch (quote, byte) {
            case (.some, UInt8(ascii: "\\")):
                if bytes.next() != nil { column += 1 }
            case (let open?, byte) where open == byte: quote = nil
            case (nil, UInt8(ascii: "'")), (nil, UInt8(ascii: "\"")):
                quote = byte
                quoteColumn = column
            case (nil, UInt8(ascii: "%")):
                let next = bytes.next()
                guard next == UInt8(ascii: "@") || next == UInt8(ascii: "K") else {
                    throw Self.invalid(
                        "Column \(column) of the predicate: only %@ (for a value) and %K (for a name) are filled from the "
                            + "arguments, whatever the value's type.")
                }
                column += 1
                count += 1
            default: break
            }
        }
        if isEmpty { throw Self.invalid("The predicate is empty; TRUEPREDICATE matches all objects.") }
        if quote != nil {
            throw Self.invalid("Column \(quoteColumn) of the predicate: the string that begins here has no end.")
        }
        return count
    }

    private static func invalid(_ message: String) -> BrokerError {
        BrokerError(.invalidPredicate, "\(message) Nothing was sent.")
    }
}
