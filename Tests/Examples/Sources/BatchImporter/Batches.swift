import Foundation

/// The lines of a file, 1,000 at a time.
struct Batches: Sequence, IteratorProtocol {
    private let data: Data
    private var offset: Data.Index
    private var line = 0

    init(data: Data) {
        self.data = data
        offset = data.startIndex
    }

    mutating func next() -> Batch? {
        var batch = Batch(offset: offset)
        while batch.lines.count < 1_000, offset < data.endIndex {
            let end = data[offset...].firstIndex(of: UInt8(ascii: "\n")) ?? data.endIndex
            line += 1
            if end > offset { batch.append(data[offset..<end], line: line) }
            offset = Swift.min(end + 1, data.endIndex)
        }
        return batch.lines.isEmpty ? nil : batch
    }
}
