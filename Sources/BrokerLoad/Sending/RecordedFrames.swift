internal import BrokerFastJSON
package import BrokerJSON
internal import BrokerWire

/// Frames as they were recorded: a file holds just what went over the socket.
package enum RecordedFrames {
    /// Cuts a recording into frames.
    ///
    /// - Parameter name: of the recording, for what is wrong with it.
    /// - Throws: where it is no frame, or no message.
    package static func read(_ recording: JSONText, name: String) throws(LoadError) -> PreparedFrames {
        var frames = PreparedFrames()
        var decoder = FrameDecoder()
        var place = 0
        while place < recording.count {
            let rest = UnsafeRawBufferPointer(rebasing: recording.bytes[place...])
            do throws(WireError) {
                guard case .frame(let payload) = try FrameScanner.scan(rest) else {
                    throw WireError(.malformedFrame, "It ends inside a frame.")
                }
                let content = try decoder.decode(UnsafeRawBufferPointer(rebasing: rest[payload]))
                let document = try Self.parse(content)
                withExtendedLifetime(document) {
                    frames.append(
                        rest[..<payload.upperBound], contentBytes: content.count, records: records(in: document.root),
                        key: .text(key(of: document.root)))
                }
                place += payload.upperBound
            } catch {
                throw LoadError(
                    .failed,
                    "\(name) is no recording of frames: at byte \(place), after \(frames.jobs.count) frames: "
                        + error.message)
            }
        }
        guard !frames.jobs.isEmpty else { throw LoadError(.failed, "\(name) holds no frame.") }
        return frames
    }

    private static func parse(_ content: JSONText) throws(WireError) -> JSONDocument {
        do throws(JSONError) {
            return try JSONDocument(fast: content)
        } catch {
            throw WireError(error)
        }
    }

    /// The identification of the answer; empty when it has none.
    private static func key(of message: JSONValue) -> String {
        message["id"]?.string ?? message["tag"].map { String(decoding: $0.jsonText, as: UTF8.self) } ?? ""
    }

    /// Records that are seen without a model: the elements of every `json`.
    private static func records(in message: JSONValue) -> Int {
        var count = 0
        for operation in message["operations"].map({ Array($0.elements) }) ?? [message] {
            if let json = operation["json"] { count += elements(of: json) }
        }
        if let collections = message["collections"] {
            for (_, json) in collections.members { count += elements(of: json) }
        }
        return count
    }

    private static func elements(of json: JSONValue) -> Int {
        guard json.kind == .array else { return 1 }
        return json.elements.reduce(0) { count, _ in count + 1 }
    }
}
