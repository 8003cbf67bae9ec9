internal import BrokerJSON
internal import BrokerWire

/// A whole frame of a connection without its length, in memory of its own.
enum FrameBytes: Sendable {
    case payload([UInt8])
    /// A frame as ``StoredFrame`` makes it, of which the content is the only part that is not known: that is all its memory.
    case content(JSONText)

    init(_ bytes: UnsafeRawBufferPointer, limits: FrameLimits) {
        if let content = StoredFrame.content(of: bytes), content.count <= limits.maximumContentCount {
            self = .content(JSONText(copying: content))
        } else {
            self = .payload([UInt8](bytes))
        }
    }

    /// The bytes as they arrived.
    var payload: [UInt8] {
        switch self {
        case .payload(let payload): payload
        // Such a frame can always be made again.
        case .content(let content): StoredFrame.payload(content.bytes) ?? []
        }
    }

    var payloadCount: Int {
        switch self {
        case .payload(let payload): payload.count
        case .content(let content): StoredFrame.payloadCount(content.count)
        }
    }
}

extension FrameBytes: Equatable {
    static func == (left: FrameBytes, right: FrameBytes) -> Bool { left.payload == right.payload }
}
