internal import Glibc

/// The offsets of lines in bytes that arrive in pieces. Positions are requested in nearly ascending order.
final class LineStarts {
    /// The maximum number of lines before the requested position that are stored.
    private static let kept = 4096

    private var starts = [0]
    /// The line that was requested last: its index in ``starts``, and the number of discarded lines before them.
    private var index = 0
    private var thrownAway = 0
    private var count = 0

    func append(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            var index = 0
            while let end = memchr(base + index, Int32(UInt8(ascii: "\n")), bytes.count - index) {
                index = UnsafeRawPointer(end) - base + 1
                starts.append(count + index)
            }
        }
        count += bytes.count
    }

    func place(at offset: Int) -> XMLPlace {
        go(to: offset)
        return XMLPlace(
            line: thrownAway + index + 1, column: max(1, offset - starts[index] + 1), offset: offset)
    }

    /// Earlier lines are rarely requested.
    func pass(_ offset: Int) {
        go(to: min(offset, count))
        guard index > 2 * Self.kept else { return }
        starts.removeFirst(index - Self.kept)
        thrownAway += index - Self.kept
        index = Self.kept
    }

    private func go(to offset: Int) {
        while index + 1 < starts.count, starts[index + 1] <= offset { index += 1 }
        while index > 0, starts[index] > offset { index -= 1 }
    }
}
