/// A part of an input that is no record, and after which the reading went on.
package struct InputReject: Sendable {
    package let fault: InputFault
    /// The text as it is in the input, without its line end.
    package let text: [UInt8]
    /// The text is a value of JSON, in which the records are not where they should be.
    package let isJSON: Bool
}

/// How an input is read.
package struct InputReading: Sendable {
    /// Nil finds it in the content.
    package var format: RecordFormat?
    /// The format that something else than the content shows.
    package var namedFormat: RecordFormat?
    /// Where in each value the records are; nil when the values are the records, or arrays of them.
    package var root: RecordRoot?
    package var csv = CSVOptions()
    package var encoding: TextEncoding?
    /// JSON may be a table: rows of values, or values.
    package var readsTables = false
    /// Lines that are no records are skipped, up to that number; 0 ends the reading with the first one.
    package var mostRejects = 0

    package init(format: RecordFormat?, root: RecordRoot? = nil) { (self.format, self.root) = (format, root) }

    /// The format that is given, or that the content has. Of a pipe the first bytes are waited for.
    package func format(atPath path: String) -> RecordFormat {
        format ?? RecordFormat.found(atPath: path, named: namedFormat, encoding: encoding)
    }
}

/// Finds the records of one input. Belongs to one thread, which may block.
///
/// A fault ends the reading, unless faults are skipped. Then the text from the beginning of the broken record to the end of its
/// line is a reject, and the reading goes on with the next line; of JSON with the next one that begins as records do. What
/// was read after the broken record's line is read again, so a half record takes no other one with it. Where that is not
/// certain, in an array or after `mostRetained` bytes, the fault ends the reading nevertheless.
package final class InputReader {
    private let bytes: any ByteSource
    /// Nil for XML, whose parser decodes it.
    private let decoded: DecodedBytes?
    private var reader: any RecordReader
    private let reading: InputReading
    private let format: RecordFormat
    /// Where the records are in each record of the reader; nil if it finds them itself.
    private let root: RecordRoot?
    private var isOver = false
    private var rejects: [InputReject] = []
    private var rejectCount = 0
    /// The text from the beginning of the record that has begun, or of the part that is being skipped, and its offset.
    private var retained: [UInt8] = []
    private var retainedOffset = 0
    /// The fault of the part that is being skipped.
    private var skipped: InputFault?

    /// A broken line is shorter.
    static let mostRetained = 4 << 20

    package init(_ bytes: any ByteSource, _ reading: InputReading, limits: RecordLimits = .ofJobs) {
        let (format, root) = (reading.format ?? .json, reading.root)
        (self.reading, self.format) = (reading, format)
        let isTable = format == .csv || format == .tsv
        decoded =
            format == .xml ? nil : DecodedBytes(bytes, encoding: reading.encoding, mayBeWestern: isTable)
        self.bytes = decoded ?? bytes
        var csv = reading.csv
        csv.prefersTab = format == .tsv
        self.root = format.readsTexts && format != .xml ? root : nil
        reader =
            switch format {
            case .json, .ndjson:
                root == nil && reading.readsTables
                    ? JSONTableReader(limits: limits)
                    : RecordCutter(opensArrays: root == nil, root: root, limits: limits)
            case .csv, .tsv: CSVReader(csv, limits: limits)
            case .form: FormReader(limits: limits)
            case .xml: XMLReader(root: root, limits: limits)
            }
    }

    var bytesRead: Int { bytes.bytesRead }

    /// What a person should know about the reading, each time once.
    func takeNotes() -> [String] { (decoded?.takeNote().map { [$0] } ?? []) + reader.takeNotes() }

    /// What was skipped since the last call.
    func takeRejects() -> [InputReject] { exchange(&rejects, with: []) }

    /// Whether ``next(_:)`` has bytes within that time.
    func isReady(within milliseconds: Int32) -> Bool { isOver || bytes.isReady(within: milliseconds) }

    /// Passes on the records that the next bytes end.
    ///
    /// - Returns: false at the end.
    /// - Throws: the first fault, after the records before it were passed on; or the error of `emit`.
    package func next(_ emit: RecordSink) throws(InputFault) -> Bool {
        guard !isOver else { return false }
        let chunk: [UInt8]
        do throws(InputFault) {
            chunk = try bytes.next()
        } catch {
            // The records before the fault.
            try flush(emit)
            throw InputFault(reason: error.reason, place: error.place.map { _ in reader.place })
        }
        isOver = chunk.isEmpty
        if reading.mostRejects > 0, format != .xml {
            try recovering(chunk, emit)
        } else {
            try read(chunk, isLast: isOver, emit)
        }
        return !isOver
    }

    /// No more bytes come for now: passes on what is a record already.
    func flush(_ emit: RecordSink) throws(InputFault) {
        try reader.flush { record throws(InputFault) in try self.take(record, emit) }
    }

    private func read(_ chunk: [UInt8], isLast: Bool, _ emit: RecordSink) throws(InputFault) {
        func take(_ record: InputRecord) throws(InputFault) { try self.take(record, emit) }
        if !chunk.isEmpty { try reader.feed(chunk, take) }
        if isLast { try reader.finish(take) }
    }

    private func take(_ record: InputRecord, _ emit: RecordSink) throws(InputFault) {
        guard reading.mostRejects > 0 else {
            guard let root else { return try emit(record) }
            return try record.records(below: root, emit)
        }
        var isJSON = false
        do throws(InputFault) {
            if !record.isSound, let fault = record.fault { throw fault }
            isJSON = true
            let sound = InputRecord(json: record.json, place: record.place, isSound: true)
            guard let root else { return try emit(sound) }
            try sound.records(below: root, emit)
        } catch {
            try reject(error, Array(record.json), isJSON: isJSON)
        }
    }

    // MARK: - Faults that are skipped

    private func reject(_ fault: InputFault, _ text: [UInt8], isJSON: Bool = false) throws(InputFault) {
        rejectCount += 1
        guard rejectCount <= reading.mostRejects else {
            throw InputFault(
                reason: "\(fault.reason); these are more than \(reading.mostRejects) lines that cannot be read (is "
                    + "--type right?); --max-unreadable allows more", place: fault.place, recordPlace: fault.recordPlace
            )
        }
        rejects.append(InputReject(fault: fault, text: text, isJSON: isJSON))
    }

    private func recovering(_ chunk: [UInt8], _ emit: RecordSink) throws(InputFault) {
        var chunk = chunk
        // The offset of the chunk.
        var offset = skipped == nil ? reader.place.offset ?? 0 : retainedOffset + retained.count
        if retained.isEmpty { retainedOffset = offset }
        while true {
            if let fault = skipped {
                retained += chunk
                guard let rest = try skip(fault) else { return }
                (offset, chunk) = (retainedOffset + rest, Array(retained[rest...]))
                (retained, retainedOffset) = ([], offset)
                skipped = nil
            }
            do throws(InputFault) {
                try read(chunk, isLast: isOver, emit)
                return retain(chunk, at: offset)
            } catch {
                guard rejectCount <= reading.mostRejects,
                    let start = (error.valuePlace ?? error.recordPlace ?? error.place)?.offset,
                    start >= retainedOffset
                else { throw error }
                retained += chunk
                retained.removeFirst(start - retainedOffset)
                retainedOffset = start
                skipped = error
                chunk = []
            }
        }
    }

    /// Retains the text of the record that has begun.
    private func retain(_ chunk: [UInt8], at offset: Int) {
        guard let start = reader.recordStart, start >= retainedOffset,
            offset + chunk.count - start <= Self.mostRetained
        else {
            (retained, retainedOffset) = ([], offset + chunk.count)
            return
        }
        retained += chunk
        retained.removeFirst(start - retainedOffset)
        retainedOffset = start
    }

    /// Rejects the text up to the line with which the reading goes on.
    ///
    /// - Returns: the offset of that line in the retained text; nil when it is not there yet.
    private func skip(_ fault: InputFault) throws(InputFault) -> Int? {
        let lineEnd = reader.lineEnd
        let opening = retained.first.flatMap { Self.openings.contains($0) ? [$0] : nil } ?? Self.openings
        // The line on which the record ends, where that is known.
        let known = max(0, (fault.recordEnd ?? retainedOffset) - retainedOffset)
        var end = retained[min(known, retained.count)...].firstIndex(of: lineEnd)
        if !format.readsTexts {
            while let index = end, index + 1 < retained.count, !opening.contains(retained[index + 1]) {
                end = retained[(index + 1)...].firstIndex(of: lineEnd)
            }
            // The next line has not come.
            if end == retained.count - 1, !isOver { end = nil }
        }
        guard let rest = end.map({ $0 + 1 }) ?? (isOver ? retained.count : nil) else {
            guard retained.count <= Self.mostRetained else { throw fault }
            return nil
        }
        let place = fault.valuePlace ?? fault.recordPlace ?? fault.place ?? reader.place
        let lines = retained[..<rest].count { $0 == lineEnd }
        guard reader.restart(at: TextPosition(line: place.line + lines, offset: retainedOffset + rest)) else {
            throw fault
        }
        var text = retained[..<rest]
        while let last = text.last, last == lineEnd || last == UInt8(ascii: "\r") { text.removeLast() }
        try reject(fault, Array(text))
        return rest
    }

    private static let openings = [UInt8(ascii: "{"), UInt8(ascii: "[")]
}

extension InputRecord {
    /// Passes on the records below the root of this value.
    fileprivate func records(below root: RecordRoot, _ emit: RecordSink) throws(InputFault) {
        var cutter = RecordCutter(opensArrays: false, root: root, limits: .ofJobs)
        var found: [InputRecord] = []
        var fault: InputFault?
        do throws(InputFault) {
            try cutter.feed(Array(json)) { found.append($0) }
            try cutter.finish { found.append($0) }
        } catch {
            fault = InputFault(reason: error.reason, place: place, recordPlace: place)
        }
        for record in found { try emit(InputRecord(json: record.json, place: place, isSound: true)) }
        if let fault { throw fault }
    }
}
