package import BrokerJSON
internal import CSimdjson
internal import CTape

extension JSONDocument {
    /// Parses by simdjson; the result and the faults are those of `init(parsing:maximumDepth:)`.
    ///
    /// - Throws: `JSONError` with the first fault and its position.
    package convenience init(
        fast text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth
    ) throws(JSONError) {
        self.init(text, adopting: try Self.parse(text, maximumDepth, nil).get())
    }

    /// - Parameter allowance: asked for the memory of the tape and of the scratch space; the latter is given back.
    /// - Throws: `JSONRefusal`: the first fault and its position, or a refused allowance.
    package convenience init(
        fast text: JSONText, maximumDepth: Int = JSONDocument.defaultMaximumDepth, allowance: any MemoryAllowance
    ) throws(JSONRefusal) {
        switch Self.parse(text, maximumDepth, allowance) {
        case .success(let tape): self.init(text, adopting: tape)
        case .failure(let error): throw error.isWantOfMemory ? .noRoom : .fault(error)
        }
    }

    /// Parses a text first strictly; commas before closing brackets are accepted if `isLenient` says so of the document
    /// without them. Blocking work, by the size of the text.
    ///
    /// - Throws: `JSONRefusal`: the first fault of the text as it is, or a refused allowance.
    package static func parse(
        _ text: JSONText, allowance: any MemoryAllowance, isLenient: (JSONDocument) -> Bool
    ) throws(JSONRefusal) -> JSONDocument {
        do throws(JSONRefusal) {
            return try JSONDocument(fast: text, allowance: allowance)
        } catch {
            guard case .fault = error else { throw error }
            // The corrected copy, and the memory for making it.
            guard allowance.take(text.count * 2) else { throw .noRoom }
            guard let corrected = text.blankingTrailingCommas() else {
                allowance.giveBack(text.count * 2)
                throw error
            }
            allowance.giveBack(text.count)
            let result = Result { () throws(JSONRefusal) in try JSONDocument(fast: corrected, allowance: allowance) }
            switch result {
            case .success(let document) where isLenient(document): return document
            case .failure(.noRoom): throw .noRoom
            // A text that is not even lenient JSON is reported by its first strict error.
            case .success, .failure(.fault): throw error
            }
        }
    }

    private static func parse(
        _ text: JSONText, _ maximumDepth: Int, _ allowance: (any MemoryAllowance)?
    ) -> Result<broker_json_tape, JSONError> {
        var tape = broker_json_tape()
        var fault = 0
        var asked = allowance
        let status = withUnsafeMutablePointer(to: &asked) { asked in
            broker_json_parse(
                text.bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), text.count, UInt32(maximumDepth),
                allowance == nil ? nil : take, asked, &tape, &fault)
        }
        guard status == BROKER_JSON_OK else {
            let lexical = status == BROKER_JSON_UNCLOSED_STRING ? LexicalFaults.first(in: text.bytes) : nil
            return .failure(JSONError(lexical ?? TapeFault(status, at: fault), in: text, maximumDepth: maximumDepth))
        }
        return .success(tape)
    }
}

extension Double {
    /// As `Double.init(jsonNumber:)`, in a fraction of the time.
    package init?(fastJSONNumber text: UnsafeBufferPointer<UInt8>) {
        var value = 0.0
        guard let start = text.baseAddress, broker_json_double(start, text.count, &value) else { return nil }
        self = value
    }
}

/// The parser's callback to the allowance; its context points to an optional allowance.
private func take(_ context: UnsafeMutableRawPointer?, _ bytes: Int) -> Bool {
    guard let allowance = context?.assumingMemoryBound(to: (any MemoryAllowance)?.self).pointee else { return true }
    if bytes >= 0 { return allowance.take(bytes) }
    allowance.giveBack(-bytes)
    return true
}
