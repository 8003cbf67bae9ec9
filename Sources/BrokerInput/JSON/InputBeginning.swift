/// The beginning of an input.
package enum InputBeginning {
    /// The first value is an array, whose elements are records.
    ///
    /// - Parameter path: a file; `-` is standard input.
    package static func isArray(file path: String) -> Bool {
        do throws(ByteFault) {
            let bytes = UnpackedBytes(try FileBytes(path))
            while true {
                let chunk = try bytes.next()
                guard !chunk.isEmpty else { return false }
                // White space and a byte order mark may precede it.
                let first = chunk.first { !$0.isJSONSpace && ![0xEF, 0xBB, 0xBF, 0x1E].contains($0) }
                if let first { return first == UInt8(ascii: "[") }
            }
        } catch {
            return false
        }
    }
}
