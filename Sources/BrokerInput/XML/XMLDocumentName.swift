/// The name of a document's own element, with which the root of its records begins.
package enum XMLDocumentName {
    /// More than the declarations before the element have.
    private static let mostBytes = 1 << 20

    /// - Parameter path: a file; `-` is standard input.
    /// - Returns: nil when it is not found: the reader of the document reports why.
    package static func find(inFile path: String) -> String? {
        var text: [UInt8] = []
        do throws(ByteFault) {
            let bytes = UnpackedBytes(try FileBytes(path))
            while text.count < mostBytes {
                let chunk = try bytes.next()
                if chunk.isEmpty { break }
                text += chunk
                if let name = find(in: text) { return name }
            }
        } catch {
            return nil
        }
        return nil
    }

    static func find(in text: [UInt8]) -> String? {
        var index = 0
        while let start = text[index...].firstIndex(of: UInt8(ascii: "<")) {
            let rest = text[(start + 1)...]
            if rest.starts(with: "!--".utf8) {
                guard let end = rest.firstRange(of: Array("-->".utf8)) else { return nil }
                index = end.upperBound
            } else if rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "?") {
                guard let end = endOfDeclaration(rest) else { return nil }
                index = end
            } else {
                let name = rest.prefix { !" \t\r\n/>".utf8.contains($0) }
                return name.endIndex < text.count && !name.isEmpty ? String(decoding: name, as: UTF8.self) : nil
            }
        }
        return nil
    }

    /// After the `>` of an instruction or a document type, whose internal subset is in brackets.
    private static func endOfDeclaration(_ text: ArraySlice<UInt8>) -> Int? {
        var depth = 0
        var quote: UInt8?
        for (offset, byte) in zip(text.indices, text) {
            if let open = quote {
                if byte == open { quote = nil }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = byte
            case UInt8(ascii: "["), UInt8(ascii: "<"): depth += 1
            case UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ">") where depth > 0: depth -= 1
            case UInt8(ascii: ">"): return offset + 1
            default: break
            }
        }
        return nil
    }
}
