import CGlibc
import Glibc

/// A name of a character encoding that iconv knows.
package struct TextEncoding: Sendable, Equatable {
    package let name: String

    static let windows1252 = TextEncoding(known: "WINDOWS-1252")

    /// Nil for one that iconv does not know.
    package init?(_ name: String) {
        guard let converter = Self.open(name) else { return nil }
        iconv_close(converter)
        self.name = name
    }

    init(known name: String) { self.name = name }

    fileprivate static func open(_ name: String) -> iconv_t? {
        let converter = iconv_open("UTF-8", name)
        return converter == iconv_t(bitPattern: -1) ? nil : converter
    }
}

/// A text as UTF-8, in whatever encoding it is.
///
/// 1. A given encoding counts. (A byte order mark of UTF-8 is left to the reader.)
/// 2. UTF-16 is known by its byte order mark.
/// 3. Of CSV that has only ASCII up to a byte that begins no UTF-8, this and all that follows is read as Windows-1252, in
///    which the ASCII before it is the same. Three bytes beyond ASCII in a row are of no Western language, and a letter of
///    UTF-8 shows that the byte was a damaged one: both are a fault.
final class DecodedBytes: ByteSource {
    private let bytes: any ByteSource
    private let mayBeWestern: Bool
    private var given: TextEncoding?
    private var converter: iconv_t?
    private var encoding = ""
    private var hasBegun = false
    /// The text may still turn out to be Windows-1252.
    private var isUndecided: Bool
    private var isWestern = false
    /// Bytes that are not converted yet: the next ones decide about them.
    private var rest: [UInt8] = []
    private var offset = 0
    private var fault: InputFault?
    private(set) var note: String?

    init(_ bytes: any ByteSource, encoding: TextEncoding?, mayBeWestern: Bool) {
        self.bytes = bytes
        self.mayBeWestern = mayBeWestern
        given = encoding
        isUndecided = mayBeWestern && encoding == nil
    }

    deinit {
        if let converter { iconv_close(converter) }
    }

    var bytesRead: Int { bytes.bytesRead }

    func isReady(within milliseconds: Int32) -> Bool { bytes.isReady(within: milliseconds) }

    func takeNote() -> String? { exchange(&note, with: nil) }

    func next() throws(InputFault) -> [UInt8] {
        if let fault { throw fault }
        if !hasBegun {
            try begin()
            // They come before a fault of the next ones.
            if !rest.isEmpty {
                let decoded = try decode(exchange(&rest, with: []), isEnd: false)
                if !decoded.isEmpty { return decoded }
            }
        }
        while true {
            var chunk = try bytes.next()
            let isEnd = chunk.isEmpty
            if !rest.isEmpty { chunk = exchange(&rest, with: []) + chunk }
            let decoded = try decode(chunk, isEnd: isEnd)
            if !decoded.isEmpty || isEnd { return decoded }
        }
    }

    private func begin() throws(InputFault) {
        hasBegun = true
        guard given == nil else { return convert(from: given!) }
        while rest.count < 2 {
            let chunk = try bytes.next()
            if chunk.isEmpty { break }
            rest += chunk
        }
        for (mark, name) in [([0xFF, 0xFE] as [UInt8], "UTF-16LE"), ([0xFE, 0xFF], "UTF-16BE")]
        where rest.starts(with: mark) {
            rest.removeFirst(2)
            convert(from: TextEncoding(known: name))
        }
    }

    private func convert(from encoding: TextEncoding) {
        isUndecided = false
        self.encoding = encoding.name
        converter = TextEncoding.open(encoding.name)
        if converter == nil {
            fault = .damaged("the encoding \(encoding.name) is unknown; iconv -l lists those that are")
        }
    }

    private func decode(_ chunk: [UInt8], isEnd: Bool) throws(InputFault) -> [UInt8] {
        if let fault { throw fault }
        if converter != nil { return try converted(chunk, isEnd: isEnd) }
        guard isUndecided, let begin = chunk.firstIndex(where: { $0 >= 0x80 }) else {
            offset += chunk.count
            return chunk
        }
        let character = chunk[begin...].prefix(4)
        let length = Self.length(of: character)
        if length == nil, character.count < 4, !isEnd, Self.mayContinue(character) {
            rest = Array(chunk[begin...])
            offset += begin
            return Array(chunk[..<begin])
        }
        guard length == nil else {
            isUndecided = false
            offset += chunk.count
            return chunk
        }
        note =
            "the text is not UTF-8, from byte \(offset + begin) on, and is read as Windows-1252; --encoding names another "
            + "encoding"
        isWestern = true
        convert(from: .windows1252)
        offset += begin
        guard begin > 0 else { return try converted(chunk, isEnd: isEnd) }
        // What comes before has its records also where the next byte is a fault.
        rest = Array(chunk[begin...])
        return Array(chunk[..<begin])
    }

    /// The bytes of the first character; nil if it is not UTF-8.
    private static func length(of bytes: ArraySlice<UInt8>) -> Int? {
        (1...max(1, bytes.count)).first { count in
            Array(bytes.prefix(count)).withUnsafeBufferPointer { utf8FaultOffset($0) == nil }
        }
    }

    /// A character of UTF-8 may begin with these bytes.
    private static func mayContinue(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let first = bytes.first, (0xC2...0xF4).contains(first) else { return false }
        return bytes.dropFirst().allSatisfy { (0x80...0xBF).contains($0) }
    }

    private func converted(_ chunk: [UInt8], isEnd: Bool) throws(InputFault) -> [UInt8] {
        var count = chunk.count
        if isWestern {
            // Bytes beyond ASCII in a row.
            var run = 0
            for (index, byte) in chunk.enumerated() {
                run = byte >= 0x80 ? run + 1 : 0
                let isUTF8 = run == 2 && [0xC2, 0xC3].contains(chunk[index - 1]) && byte < 0xC0
                guard run == 3 || isUTF8 else { continue }
                fault = .damaged("the text is neither UTF-8 nor Windows-1252; \(encodingRemedy) or SHIFT_JIS")
                count = index + 1
                break
            }
            if fault != nil || !isEnd { count -= run }
            if fault == nil { rest = Array(chunk[count...]) }
        }
        var left = count
        var failure: Int32 = 0
        let text = [UInt8](unsafeUninitializedCapacity: count * 3 + 8) { space, filled in
            var output = UnsafeMutableRawPointer(space.baseAddress)?.assumingMemoryBound(to: CChar.self)
            var room = space.count
            chunk.withUnsafeBytes { bytes in
                // iconv does not write there, but does not say so.
                var input = UnsafeMutableRawPointer(mutating: bytes.baseAddress)?.assumingMemoryBound(to: CChar.self)
                if left > 0, iconv(converter, &input, &left, &output, &room) == Int(bitPattern: UInt.max) {
                    failure = errno
                }
            }
            filled = space.count - room
        }
        let done = count - left
        if failure == EILSEQ || failure == EINVAL && isEnd {
            fault = .damaged(
                "\(chunk[done].asSeen) at byte \(offset + done) of the file is no \(encoding); --encoding names another"
            )
        } else if failure == EINVAL {
            rest = Array(chunk[done..<count])
        }
        offset += done
        if text.isEmpty, let fault { throw fault }
        return text
    }
}
