internal import Glibc

/// Where lines begin, in bytes that come in pieces. Places are asked for from the first to the last, more or less.
final class LineStarts {
    /// Passed lines that are kept at most.
    private static let kept = 4096

    private var starts = [0]
    /// The line that was asked for last: its place in ``starts``, and how many were thrown away before them.
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

    /// Of what stands before, little is asked for any more.
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
