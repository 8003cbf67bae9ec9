import BrokerJSON

/// The format of an input.
package enum RecordFormat: String, CaseIterable, Sendable {
    case json, ndjson, csv
    /// CSV with tabs.
    case tsv
    case form, xml

    /// The format has no other values than texts.
    package var readsTexts: Bool { self != .json && self != .ndjson }

    /// The format by the file's name, without the extension of its compression; nil when the name does not show it.
    package init?(fileName: String) {
        var parts = fileName.lowercased().split(separator: "/").last?.split(separator: ".") ?? []
        if let packing = parts.last, packing == "gz" || packing == "lz4" { parts.removeLast() }
        // The name of a hidden file is no extension.
        guard parts.count > 1, let ending = parts.last else { return nil }
        switch ending {
        case "jsonl": self = .ndjson
        default: self.init(rawValue: String(ending))
        }
    }
}

extension RecordFormat {
    /// Reads all records of an input.
    ///
    /// - Parameters:
    ///   - csv: how CSV is read.
    ///   - wait: called before bytes are read, which may block.
    ///   - emit: gets each record; its error ends the reading.
    /// - Throws: the first fault, after the records before it were passed on.
    package func read(
        _ bytes: any ByteSource, root: RecordRoot?, csv: CSVOptions = CSVOptions(), limits: RecordLimits = .ofJobs,
        wait: () throws(InputFault) -> Void, _ emit: (InputRecord) throws(InputFault) -> Void
    ) throws(InputFault) {
        switch self {
        case .json, .ndjson: try read(bytes, RecordCutter(opensArrays: root == nil, limits: limits), root, wait, emit)
        case .csv: try read(bytes, CSVReader(csv, limits: limits), root, wait, emit)
        case .tsv:
            let options = CSVOptions(delimiter: csv.delimiter ?? .tab, ragged: csv.ragged)
            try read(bytes, CSVReader(options, limits: limits), root, wait, emit)
        case .form: try read(bytes, FormReader(limits: limits), root, wait, emit)
        case .xml: try read(bytes, XMLReader(root: root, limits: limits), nil, wait, emit)
        }
    }

    private func read(
        _ bytes: any ByteSource, _ reader: some RecordReader, _ root: RecordRoot?,
        _ wait: () throws(InputFault) -> Void, _ emit: (InputRecord) throws(InputFault) -> Void
    ) throws(InputFault) {
        var reader = reader
        while true {
            try wait()
            let chunk: [UInt8]
            do throws(ByteFault) {
                chunk = try bytes.next()
            } catch {
                throw error.inputFault(at: reader.place)
            }
            func take(_ record: InputRecord) throws(InputFault) {
                guard let root else { return try emit(record) }
                try record.records(below: root, isWritten: !readsTexts, emit)
            }
            if chunk.isEmpty { return try reader.finish(take) }
            try reader.feed(chunk, take)
        }
    }
}

extension InputRecord {
    /// Passes on the records below the root of this value.
    ///
    /// - Parameter isWritten: the value occurs in the input in this form, so that positions in it are positions there.
    fileprivate func records(
        below root: RecordRoot, isWritten: Bool, _ emit: (InputRecord) throws(InputFault) -> Void
    ) throws(InputFault) {
        let document = try parsed()
        defer { withExtendedLifetime(document) {} }
        var place = place
        var offset = 0
        func record(_ element: JSONValue, _ key: JSONValue?) -> InputRecord {
            let start = (key ?? element).offset
            if isWritten { place = place.advanced(over: json.dropFirst(offset).prefix(start - offset)) }
            offset = start
            guard let key else { return InputRecord(json: element.jsonText, place: place, isSound: true) }
            var writer = JSONWriter(capacity: element.bytes.count + key.bytes.count + 8)
            writer.object { writer in
                writer.key(key.string ?? "")
                writer.value(element)
            }
            return InputRecord(json: writer.bytes[...], place: place, isSound: true)
        }
        let recordPlace = self.place
        do throws(InputFault) {
            try root.forEachValue(in: document.root) { found, key throws(InputFault) in
                guard key == nil, found.kind == .array else { return try emit(record(found, key)) }
                for element in found.elements {
                    guard element.kind == .array else {
                        try emit(record(element, nil))
                        continue
                    }
                    for inner in element.elements { try emit(record(inner, nil)) }
                }
            }
        } catch {
            throw error.place == nil
                ? InputFault(reason: error.reason, place: recordPlace, recordPlace: recordPlace) : error
        }
    }
}
